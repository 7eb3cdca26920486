"""What published dataset files are like beside their format: one test per oddity, on tiny files with that oddity."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fusion.errors import InputError
from jobs.engines.local import LocalEngine
from tests.unit.test_readers import ALIGNED, TEXTS, labels_of, problems_of, read, texts_of, write, write_aligned


@pytest.fixture
def engine() -> LocalEngine:
    return LocalEngine()


def test_a_header_with_spaces_around_it(engine, tmp_path) -> None:
    """The header `N D L` may be indented, end in blanks, and have tabs or several spaces between its numbers."""
    write_aligned(tmp_path, ["0 1:1", "2 1:1", "1 1:1", "0 1:1"], [" 3 4\t3  ", "1  4 3\r"])
    raw = read(engine, tmp_path, "xc-sparse", **ALIGNED)
    assert [labels for _, labels in texts_of(engine, raw).values()] == [["0"], ["2"], ["1"], ["0"]]
    assert len(labels_of(raw)) == 3


def test_a_header_where_the_format_has_none(engine, tmp_path) -> None:
    """A file of label numbers with a header is one line too long for its texts: said so, and never shifted."""
    write_aligned(tmp_path, ["0", "1", "2", "0"], ["3 3", "1 3"])
    with pytest.raises(InputError, match=r"X.trn.txt has 3 lines and .*Y.trn.txt has 4"):
        read(engine, tmp_path, "lines-ids", **ALIGNED)


@pytest.mark.parametrize(
    ("format", "header", "lines"),
    [
        ("xc-sparse", ["3 4 3", "1 4 3"], ["0,2 0:0.5", " 1:0.1", "", "2:0.25"]),
        ("lines-ids", None, ["0,2", "", " ", "\t"]),
        ("lines-names", None, ["0 2", "", " ", "\t"]),
    ],
)
def test_texts_without_labels(engine, tmp_path, format, header, lines) -> None:
    """They are read as such, so that every later line keeps its place; `prepare` counts them and leaves them out."""
    write_aligned(tmp_path, lines, header)
    raw = read(engine, tmp_path, format, **ALIGNED)
    assert texts_of(engine, raw) == dict(enumerate(zip(TEXTS, [["0", "2"], [], [], []], strict=True)))


@pytest.mark.parametrize(
    ("format", "header", "lines"),
    [
        ("xc-sparse", ["3 4 3 ", "1 4 3 "], ["0,2 0:0.5 3:1.0 ", "1, 1:0.1  ", "1 ", "2\t"]),
        ("lines-ids", None, ["0,2 ", "1, ", " 1\t", "2,"]),
        ("lines-names", None, ["0 2 ", "1  ", " 1\t", "2 \r"]),
    ],
)
def test_trailing_spaces(engine, tmp_path, format, header, lines) -> None:
    """Spaces, tabs, commas and carriage returns at the end of a line are no label."""
    write_aligned(tmp_path, lines, header)
    raw = read(engine, tmp_path, format, **ALIGNED)
    assert [labels for _, labels in texts_of(engine, raw).values()] == [["0", "2"], ["1"], ["1"], ["2"]]


def test_names_with_trailing_spaces(engine, tmp_path) -> None:
    """In a file of labels and in the file of their names alike, so that both still meet."""
    write_aligned(tmp_path, ["a b\tc ", "c", "a b ", "c\t"])
    write(tmp_path, "names.txt", ["a b ", " c\t"])
    raw = read(engine, tmp_path, "lines-names", label_separator="tab", label_file="names.txt", **ALIGNED)
    assert [labels for _, labels in texts_of(engine, raw).values()] == [["a b", "c"], ["c"], ["a b"], ["c"]]
    assert labels_of(raw) == [("a b", "a b"), ("c", "c")]


def test_labels_beyond_the_header(engine, tmp_path) -> None:
    """Each is named with its file and line. Where ids begin at 1, the last one is the header's count itself."""
    write_aligned(tmp_path, ["0,3 1:1", "2 1:1", "1 1:1", "7 1:1"], ["3 4 3", "1 4 3"])
    raw = read(engine, tmp_path, "xc-sparse", **ALIGNED)
    assert [problem.removeprefix(f"{tmp_path}/").split(" by ")[0] for problem in problems_of(engine, raw)] == [
        "Y.trn.txt line 2: label id '3' is out of range: ids are 0 to 2",
        "Y.tst.txt line 2: label id '7' is out of range: ids are 0 to 2",
    ]
    write_aligned(tmp_path, ["1,3 1:1", "2 1:1", "1 1:1", "3 1:1"], ["3 4 3", "1 4 3"])
    raw = read(engine, tmp_path, "xc-sparse", first_label=1, **ALIGNED)
    assert texts_of(engine, raw)[0] == (TEXTS[0], ["1", "3"])


LATIN = {"texts": ["Café, 100 °C", "Ærø"], "names": ["Möbel & Küche", "Crème"]}


def test_latin_1_texts_and_names(engine, tmp_path) -> None:
    for name, lines in (("X.txt", LATIN["texts"]), ("Y.txt", ["0", "0,1"]), ("names.txt", LATIN["names"])):
        (tmp_path / name).write_bytes("".join(f"{line}\n" for line in lines).encode("latin-1"))
    parts = [{"name": "all", "texts": "X.txt", "labels": "Y.txt"}]
    chosen: dict[str, Any] = {"parts": parts, "label_file": "names.txt"}
    raw = read(engine, tmp_path, "lines-ids", encoding="latin-1", label_encoding="latin-1", **chosen)
    assert [text for text, _ in texts_of(engine, raw).values()] == LATIN["texts"]
    assert [name for _, name in labels_of(raw)] == LATIN["names"]
    problems = problems_of(engine, read(engine, tmp_path, "lines-ids", label_encoding="latin-1", **chosen))
    assert len(problems) == 2
    assert "X.txt line 1: not UTF-8; set prepare.encoding" in problems[0]


def test_names_in_latin_1_beside_texts_in_utf_8(engine, tmp_path) -> None:
    """AmazonCat-13K: JSON lines in UTF-8, and a file of names that is not."""
    write_json(tmp_path / "trn.json.gz", [{"title": "Tür €", "content": "", "target_ind": [1, 0]}])
    (tmp_path / "Yf.txt").write_bytes("".join(f"{name}\n" for name in LATIN["names"]).encode("latin-1"))
    chosen: dict[str, Any] = {"parts": [{"name": "all", "texts": "trn.json.gz"}], "label_file": "Yf.txt"}
    raw = read(engine, tmp_path, "xc-json", label_encoding="latin-1", **chosen)
    assert texts_of(engine, raw) == {0: ("Tür €", ["1", "0"])}
    assert labels_of(raw) == [("0", LATIN["names"][0]), ("1", LATIN["names"][1])]


def write_json(path: Path, records: list[dict[str, Any]]) -> None:
    lines = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_bytes(gzip.compress(lines.encode()))
