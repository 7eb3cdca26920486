"""Each reader on tiny files in its published form."""

from __future__ import annotations

import gzip
import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from fusion.errors import ConfigError, InputError
from jobs.datasets.formats import check_settings
from jobs.datasets.readers import READERS, RawDataset
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.settings.prepare import PrepareSettings
from udfs import splits, text_files

TEXTS = ["first text", "second text", "third, with ü", "fourth"]


@pytest.fixture
def engine() -> Engine[Any]:
    return LocalEngine()


@pytest.fixture
def small_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are divided into ranges of 7 bytes, so that tiny ones have many."""
    monkeypatch.setattr(splits, "SMALLEST", 7)
    monkeypatch.setattr(splits, "LARGEST", 7)


def write(folder: Path, name: str, lines: list[str], end: str = "\n", last: bool = True) -> Path:
    data = "".join(line + end for line in lines)
    data = data if last else data.removesuffix(end)
    path = folder / name
    path.write_bytes(gzip.compress(data.encode()) if name.endswith(".gz") else data.encode())
    return path


def read(engine: Engine[Any], folder: Path, format: str, **settings: object) -> RawDataset:
    chosen = PrepareSettings(format=format, folder=str(folder), **settings)
    return check_settings(chosen).read(engine, chosen)


def rows_of(engine: Engine[Any], raw: RawDataset) -> list[dict[str, Any]]:
    return engine.collect(raw.texts).sort_by("position").to_pylist()


def texts_of(engine: Engine[Any], raw: RawDataset) -> dict[int, tuple[str, list[str]]]:
    rows = rows_of(engine, raw)
    assert [row["problem"] for row in rows if row["problem"]] == []
    return {int(row["text_id"]): (row["text"], row["labels"]) for row in rows}


def problems_of(engine: Engine[Any], raw: RawDataset) -> list[str]:
    return [row["problem"] for row in rows_of(engine, raw) if row["problem"]]


def labels_of(raw: RawDataset) -> list[tuple[str, str]]:
    assert raw.labels is not None
    return [(row["label"], row["name"]) for row in raw.labels.to_pylist()]


def test_lines_that_are_not_utf8(engine, tmp_path) -> None:
    write_aligned(tmp_path, ["0", "1", "2", "3"])
    (tmp_path / "X.trn.txt").write_bytes("one\ncafé\r\nthree\n".encode("latin-1"))
    (problem,) = problems_of(engine, read(engine, tmp_path, "lines-ids", **ALIGNED))
    assert problem.startswith(f"{tmp_path}/X.trn.txt line 2: not UTF-8; set prepare.encoding")
    texts = texts_of(engine, read(engine, tmp_path, "lines-ids", encoding="latin-1", **ALIGNED))
    assert [texts[n][0] for n in range(3)] == ["one", "café", "three"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("expected", ["utf-8", "latin-1"])
def test_lines_of_wide_characters(engine, tmp_path, encoding, expected) -> None:
    write_aligned(tmp_path, ["0", "1", "2", "3"])
    (tmp_path / "X.trn.txt").write_bytes("one\ntwo\nthree\n".encode(encoding))
    with pytest.raises(InputError, match=f"{tmp_path}/X.trn.txt is text in UTF-(16|32), expected UTF-8; convert"):
        read(engine, tmp_path, "lines-ids", encoding=expected, **ALIGNED)


def test_a_byte_order_mark_is_no_text(engine, tmp_path) -> None:
    write_aligned(tmp_path, ["0", "1", "2", "3"])
    (tmp_path / "X.trn.txt").write_bytes(b"\xef\xbb\xbfone\ntwo\nthree\n")
    assert texts_of(engine, read(engine, tmp_path, "lines-ids", **ALIGNED))[0] == ("one", ["0"])


def test_blank_lines_of_json_are_not_counted(engine, small_splits, tmp_path) -> None:
    lines = [
        '{"text": "a", "labels": ["x"]}',
        "",
        " \t",
        '{"text": "b", "labels": ["y"]}',
        "",
        '{"text": 3, "labels": 4}',
    ]
    path = write(tmp_path, "t.jsonl", lines)
    raw = read(engine, tmp_path, "jsonl", parts=[{"name": "all", "texts": "t.jsonl"}])
    rows = rows_of(engine, raw)
    assert [row["text_id"] for row in rows] == ["0", "1", "2"]
    assert rows[2]["problem"].startswith(f"{path} line 6: the key 'labels'")


def test_packed_files_are_read_within_a_limit(engine, tmp_path, monkeypatch) -> None:
    write(tmp_path, "t.jsonl.gz", ['{"text": "a", "labels": ["x"]}', " " * (1 << 22)])
    parts = [{"name": "all", "texts": "t.jsonl.gz"}]
    assert texts_of(engine, read(engine, tmp_path, "jsonl", parts=parts)) == {0: ("a", ["x"])}
    monkeypatch.setattr(text_files, "FREELY_UNPACKED", 1 << 16)
    with pytest.raises(InputError, match=r"t.jsonl.gz has .* bytes and unpacks to more than .*: unpack it first"):
        read(engine, tmp_path, "jsonl", parts=parts)


ALIGNED = {
    "parts": [
        {"name": "train", "texts": "X.trn.txt", "labels": "Y.trn.txt"},
        {"name": "test", "texts": "X.tst.txt", "labels": "Y.tst.txt"},
    ]
}


def write_aligned(folder: Path, labels: list[str], header: list[str] | None = None) -> None:
    write(folder, "X.trn.txt", TEXTS[:3])
    write(folder, "X.tst.txt", TEXTS[3:], end="\r\n", last=False)
    write(folder, "Y.trn.txt", [*(header or [])[:1], *labels[:3]])
    write(folder, "Y.tst.txt", [*(header or [])[1:], *labels[3:]])


def test_lines_ids(engine, small_splits, tmp_path) -> None:
    write_aligned(tmp_path, ["0,2", "1 1 02", "", "2"])
    write(tmp_path, "output-items.txt", ["nil", "one", "two words"])
    raw = read(engine, tmp_path, "lines-ids", label_file="output-items.txt", **ALIGNED)
    labels = [["0", "2"], ["1", "2"], [], ["2"]]
    assert texts_of(engine, raw) == dict(enumerate(zip(TEXTS, labels, strict=True)))
    assert labels_of(raw) == [("0", "nil"), ("1", "one"), ("2", "two words")]


def test_label_ids_that_are_none(engine, tmp_path) -> None:
    write_aligned(tmp_path, ["1", "0", "x1,1", "99999999999999999999"])
    write(tmp_path, "names.txt", ["a", "b", "c"])
    raw = read(engine, tmp_path, "lines-ids", label_file="names.txt", first_label=1, **ALIGNED)
    assert [problem.removeprefix(f"{tmp_path}/").split(" by ")[0] for problem in problems_of(engine, raw)] == [
        "Y.trn.txt line 2: label id '0' is out of range: ids are 1 to 3",
        "Y.trn.txt line 3: label id 'x1' is not a whole number",
        "Y.tst.txt line 1: label id '99999999999999999999' is out of range: ids are 1 to 3",
    ]
    assert labels_of(raw) == [("1", "a"), ("2", "b"), ("3", "c")]


def test_files_of_unequal_length(engine, tmp_path) -> None:
    write_aligned(tmp_path, ["0", "1", "2", "3"])
    write(tmp_path, "Y.trn.txt", ["0", "1"])
    with pytest.raises(InputError, match=r"X.trn.txt has 3 lines and .*Y.trn.txt has 2"):
        read(engine, tmp_path, "lines-ids", **ALIGNED)


@pytest.mark.parametrize(("separator", "between"), [("space", " "), ("tab", "\t"), ("comma", ", ")])
def test_lines_names(engine, tmp_path, separator, between) -> None:
    long = "two" if separator == "space" else "two words"
    write(tmp_path, "texts.txt", TEXTS)
    write(tmp_path, "labels.txt", [between.join(["b", long, "b"]), "", long, f"{between}b"])
    write(tmp_path, "names.txt", ["b", "two words", "c"])
    parts = [{"name": "all", "texts": "texts.txt", "labels": "labels.txt"}]
    raw = read(
        engine,
        tmp_path,
        "lines-names",
        parts=parts,
        label_separator=separator,
        label_file="names.txt" if separator == "tab" else None,
    )
    assert texts_of(engine, raw) == dict(enumerate(zip(TEXTS, [["b", long], [], [long], ["b"]], strict=True)))
    if separator == "tab":
        assert labels_of(raw) == [("b", "b"), ("two words", "two words"), ("c", "c")]
    else:
        assert raw.labels is None


def test_xc_sparse(engine, small_splits, tmp_path) -> None:
    lines = ["0,2 0:0.5 3:1.0", " 1:0.1", "1", "2:0.25"]
    write_aligned(tmp_path, lines, ["3 4 3", "1 4 3"])
    raw = read(engine, tmp_path, "xc-sparse", **ALIGNED)
    assert texts_of(engine, raw) == dict(enumerate(zip(TEXTS, [["0", "2"], [], ["1"], []], strict=True)))
    assert labels_of(raw) == [("0", None), ("1", None), ("2", None)]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (["3 4 3", "1 4 5"], "differ in the number of labels: .*Y.trn.txt: 3; .*Y.tst.txt: 5"),
        (["3 4", "1 4 3"], "line 1: expected a header 'N D L'"),
        (["7 4 3", "1 4 3"], "the header says 7 texts, but 3 lines follow it"),
    ],
)
def test_xc_sparse_headers(engine, tmp_path, header, message) -> None:
    write_aligned(tmp_path, ["0 1:1"] * 4, header)
    with pytest.raises(InputError, match=message):
        read(engine, tmp_path, "xc-sparse", **ALIGNED)


def test_xc_json(engine, tmp_path) -> None:
    products = [
        {"uid": "B0", "title": "A lamp", "content": "It shines.", "target_ind": [1, 0], "target_rel": [1.0, 1.0]},
        {"uid": "B1", "title": "A pen", "content": "", "target_ind": [1]},
        {"uid": "B2", "title": "", "content": "Only content: 100 €", "target_ind": []},
    ]
    write(tmp_path, "trn.json.gz", [json.dumps(product) for product in products[:2]])
    write(tmp_path, "tst.json.gz", [json.dumps(products[2], ensure_ascii=False), ""])
    write(tmp_path, "lbl.json.gz", [json.dumps({"uid": f"L{n}", "title": name}) for n, name in enumerate("ab")])
    parts = [{"name": "train", "texts": "trn.json.gz"}, {"name": "test", "texts": "tst.json.gz"}]
    raw = read(engine, tmp_path, "xc-json", parts=parts, label_file="lbl.json.gz", group_key="uid")
    assert texts_of(engine, raw) == {
        0: ("A lamp\nIt shines.", ["1", "0"]),
        1: ("A pen", ["1"]),
        2: ("Only content: 100 €", []),
    }
    assert labels_of(raw) == [("0", "a"), ("1", "b")]
    assert {row["key"] for row in rows_of(engine, raw)} == {"B0", "B1", "B2"}
    write(tmp_path, "tst.json.gz", [json.dumps({**products[2], "target_ind": [2]})])
    raw = read(engine, tmp_path, "xc-json", parts=parts, label_file="lbl.json.gz")
    assert "tst.json.gz line 1: label id '2' is out of range: ids are 0 to 1" in problems_of(engine, raw)[0]


def test_samples_pkl(engine, tmp_path) -> None:
    samples = [
        {"idx": 0, "text_idx": 5, "text": "a\n", "labels_ids": [4, 10], "labels": ["four", "ten"]},
        {"idx": 1, "text_idx": 5, "text": "a\n", "labels_ids": [4], "labels": ["four"]},
    ]
    (tmp_path / "samples.pkl").write_bytes(pickle.dumps(samples))
    parts = [{"name": "all", "texts": "samples.pkl"}]
    raw = read(engine, tmp_path, "samples-pkl", parts=parts)
    assert texts_of(engine, raw) == {0: ("a", ["4", "10"]), 1: ("a", ["4"])}
    assert labels_of(raw) == [("4", "four"), ("10", "ten")]
    (tmp_path / "samples.pkl").write_bytes(pickle.dumps([Path("harm")]))
    assert (
        "samples.pkl: the pickle asks for pathlib"
        in problems_of(engine, read(engine, tmp_path, "samples-pkl", parts=parts))[0]
    )


def test_jsonl(engine, tmp_path) -> None:
    lines = [
        {"text_id": 7, "text": "a", "labels": ["x", "y"], "key": "k"},
        {"text_id": "8", "text": "b", "labels": [3, 3], "key": 1},
    ]
    write(tmp_path, "texts.jsonl.gz", [json.dumps(line) for line in lines])
    write(
        tmp_path,
        "labels.jsonl",
        ['{"label": "y", "name": "Y", "alt_names": ["why"]}', '{"label": 3, "description": "d"}'],
    )
    parts = [{"name": "all", "texts": "texts.jsonl.gz"}]
    raw = read(
        engine,
        tmp_path,
        "jsonl",
        parts=parts,
        label_file="labels.jsonl",
        columns={"text_id": "text_id"},
        group_key="key",
    )
    assert texts_of(engine, raw) == {7: ("a", ["x", "y"]), 8: ("b", ["3"])}
    assert {int(row["text_id"]): row["key"] for row in rows_of(engine, raw)} == {7: "k", 8: "1"}
    assert raw.labels is not None
    known = [tuple(row.values()) for row in raw.labels.to_pylist()]
    assert known == [(0, "y", "Y", ["why"], None), (1, "3", None, None, "d")]


def test_jsonl_problems(engine, tmp_path) -> None:
    lines = [
        '{"text": "[fine]", "labels": ["a"], "n": 1}',
        '{"text": "no list", "labels": "a", "n": 1}',
        '{"text": "no labels", "n": 1}',
        '{"labels": ["no text"], "n": 1}',
        "not JSON",
        '{"text": "id", "labels": ["a"], "n": " "}',
        '{"text": "blank", "labels": ["a", " "], "n": 2}',
        '{"text": "null", "labels": null, "n": 2}',
        '{"text": null, "labels": ["a"], "n": 2}',
        '{"text": ["a list"], "labels": ["a"], "n": 2}',
        '{"text": "an object", "labels": {"a": 1}, "n": 2}',
        '{"text": "cut off", "labels": ["a"], "n"',
        '["a", "list"]',
        '{"text": "twice", "labels": ["a"], "n": 3, "labels": ["b"]}',
        '{"text": "half \\ud83d", "labels": ["a"], "n": 3}',
        '{"text": "a truth", "labels": [true], "n": 3}',
        '{"text": NaN, "labels": ["a"], "n": 3}',
        '{"text": "deep", "labels": ["a"], "n": 3, "more": ' + "[" * 100_000,
        '{"text": "whole \\ud83d\\ude00", "labels": ["a"], "n": 3, "more": NaN}',
    ]
    path = write(tmp_path, "t.jsonl", lines)
    raw = read(engine, tmp_path, "jsonl", parts=[{"name": "all", "texts": "t.jsonl"}], columns={"text_id": "n"})
    problems = [row["problem"] for row in rows_of(engine, raw) if row["problem"]]
    assert problems == [
        f"{path} {problem}"
        for problem in [
            "line 2: the key 'labels' is a string, expected a list; prepare.label_separator divides strings",
            "line 3: the key 'labels' is missing; it has text, n",
            "line 4: the key 'text' is missing; it has labels, n",
            "line 5: broken JSON (Expecting value: line 1 column 1 (char 0)): not JSON",
            "line 6: n ' ' is no id; without prepare.columns.text_id texts are numbered",
            "line 7: label ' ' is no name",
            "line 8: the key 'labels' is null, expected a list",
            "line 9: the key 'text' is null, expected a string or a number",
            "line 10: the key 'text' is a list, expected a string or a number",
            "line 11: the key 'labels' is an object, expected a list",
            "line 12: broken JSON (Expecting ':' delimiter: line 1 column 41 (char 40)): "
            '{"text": "cut off", "labels": ["a"], "n"',
            "line 13: a list, expected a JSON object",
            "line 14: the key 'labels' occurs 2 times; keep one",
            "line 15: a string with \\ud83d, which is half of a character (a lone surrogate)",
            "line 16: the key 'labels' holds true or false, expected strings or numbers",
            "line 17: the key 'text' is NaN or infinite, expected a string or a number",
            "line 18: JSON with too many lists and objects inside each other",
        ]
    ]


def test_label_records_need_names(engine, tmp_path) -> None:
    """Or else ids would be read as if they were words; null says that this is meant."""
    write(tmp_path, "t.jsonl", ['{"text": "a", "labels": ["x"]}'])
    write(tmp_path, "labels.jsonl", ['{"label": "x", "title": "X"}', '{"label": "y", "name": " "}'])
    pq.write_table(pa.table({"label": ["x"], "title": ["X"]}), tmp_path / "labels.parquet")
    parts = [{"name": "all", "texts": "t.jsonl"}]
    for name in ("labels.jsonl", "labels.parquet"):
        with pytest.raises(InputError, match=rf"{name}: no label has a name, since no record has 'name'; set prepare"):
            read(engine, tmp_path, "jsonl", parts=parts, label_file=name)
        raw = read(engine, tmp_path, "jsonl", parts=parts, label_file=name, columns={"name": None})
        assert labels_of(raw)[0] == ("x", None)
        raw = read(engine, tmp_path, "jsonl", parts=parts, label_file=name, columns={"name": "title"})
        assert labels_of(raw)[0] == ("x", "X")
    write(tmp_path, "lbl.json", ['{"uid": "x"}'])
    write(tmp_path, "t.json", ['{"title": "a", "target_ind": [0]}'])
    with pytest.raises(InputError, match=r"no record has 'title'; leave out prepare.label_file"):
        read(engine, tmp_path, "xc-json", parts=[{"name": "all", "texts": "t.json"}], label_file="lbl.json")


def test_jsonl_with_lines_of_names(engine, tmp_path) -> None:
    write(tmp_path, "t.jsonl", ['{"text": "a", "labels": [1]}', '{"text": "b", "labels": ["zwei"]}'])
    write(tmp_path, "names.txt", ["null", "eins"])
    raw = read(engine, tmp_path, "jsonl", parts=[{"name": "all", "texts": "t.jsonl"}], label_file="names.txt")
    assert labels_of(raw) == [("0", "null"), ("1", "eins")]
    assert "line 2: label id 'zwei' is not a whole number" in problems_of(engine, raw)[0]


def test_parquet_is_numbered_over_files(engine, tmp_path) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    for n in range(3):
        rows = {"title": [f"t{n}", None], "text": [f"text {n}", "more"], "codes": [[1, 2], None]}
        pq.write_table(pa.table(rows), folder / f"part-{n}.parquet", row_group_size=1)
    pq.write_table(pa.table({"code": ["2", "1"], "name": ["two", "one"]}), tmp_path / "labels.parquet")
    columns = {"text": ["title", "text"], "labels": "codes", "label": "code"}
    parts = [{"name": "all", "texts": "documents"}]
    raw = read(engine, tmp_path, "parquet", parts=parts, label_file="labels.parquet", columns=columns)
    assert texts_of(engine, raw) == {
        **{2 * n: (f"t{n}\ntext {n}", ["1", "2"]) for n in range(3)},
        **{2 * n + 1: ("more", None) for n in range(3)},
    }
    assert labels_of(raw) == [("2", "two"), ("1", "one")]


def test_parquet_columns(engine, tmp_path) -> None:
    pq.write_table(pa.table({"text": ["a"], "labels": ["x"]}), tmp_path / "t.parquet")
    parts = [{"name": "all", "texts": "t.parquet"}]
    with pytest.raises(InputError, match="column 'labels' is string, expected a list"):
        read(engine, tmp_path, "parquet", parts=parts)
    with pytest.raises(InputError, match="missing column 'body'; it has text, labels"):
        read(engine, tmp_path, "parquet", parts=parts, columns={"text": "body"})
    twice = pa.table([pa.array(["a"]), pa.array([["x"]]), pa.array(["b"])], names=["text", "labels", "text"])
    pq.write_table(twice, tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t.parquet: the column 'text' is there 2 times; keep one"):
        read(engine, tmp_path, "parquet", parts=parts)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"text": ["b"]}, "missing column 'labels'; it has text"),
        ({"labels": [["x"]]}, "missing column 'text'; it has labels"),
        # Else each character would be a label.
        ({"text": ["b"], "labels": ["xyz"]}, "column 'labels' is string, expected a list"),
        ({"text": [["b"]], "labels": [["x"]]}, "column 'text' is array<string>, expected a single value"),
    ],
)
def test_every_parquet_file_has_the_columns(engine, tmp_path, second, message) -> None:
    for name, columns in {"a": {"text": ["a"], "labels": [["x"]]}, "b": second}.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    with pytest.raises(InputError, match=f"{tmp_path}/b.parquet: {re.escape(message)}"):
        read(engine, tmp_path, "parquet", parts=[{"name": "all", "texts": "*.parquet"}])


@pytest.mark.parametrize(
    "columns", [{"text": [math.nan], "labels": [["x"]]}, {"text": ["a"], "labels": [[1.0, math.inf]]}]
)
def test_numbers_that_are_none(engine, tmp_path, columns) -> None:
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    (problem,) = problems_of(engine, read(engine, tmp_path, "parquet", parts=[{"name": "all", "texts": "t.parquet"}]))
    assert problem == f"{tmp_path}/t.parquet row 1: a column holds NaN or infinite, expected strings or numbers"


@pytest.mark.parametrize("format", ["lines-ids", "jsonl", "parquet"])
def test_missing_files(engine, tmp_path, format) -> None:
    part = {"name": "all", "texts": "nowhere.txt"} | ({"labels": "Y.txt"} if format == "lines-ids" else {})
    with pytest.raises(InputError, match=r"cannot read .*/nowhere.txt: .*does not exist.*prepare.folder"):
        read(engine, tmp_path, format, parts=[part])


def test_settings_that_do_not_fit_the_format() -> None:
    part = {"name": "all", "texts": "t"}
    for settings, message in [
        ({}, "no dataset"),
        ({"format": "jsnl", "parts": [part]}, "Did you mean 'jsonl'"),
        ({"format": "jsonl"}, "prepare.parts is empty"),
        ({"format": "lines-ids", "parts": [part]}, "part 'all' needs a file of labels"),
        ({"format": "jsonl", "parts": [{**part, "labels": "y"}]}, "labels are in the same file as their texts"),
        ({"format": "samples-pkl", "parts": [part], "group_key": "source"}, "has no columns"),
        ({"format": "jsonl", "parts": [part], "split": "published"}, "part 'all' has no role"),
        ({"format": "jsonl", "parts": [{**part, "role": "test"}]}, "'all' has a role, but prepare.split is folds"),
        ({"format": "jsonl", "parts": [part], "columns": {"role": "s"}}, "set it to published"),
        (
            {"format": "samples-pkl", "parts": [part], "split": "published", "columns": {"role": "s"}},
            "the format samples-pkl has no columns",
        ),
    ]:
        with pytest.raises(ConfigError, match=message):
            check_settings(PrepareSettings(**settings))


def test_parts_that_are_called_as_a_role_have_it_in_a_published_split() -> None:
    parts = [{"name": "train", "texts": "a"}, {"name": "dev", "texts": "b", "role": "validation"}]
    by_name = PrepareSettings(format="jsonl", parts=parts, split="published")
    assert [part.role for part in by_name.parts] == ["train", "validation"]
    check_settings(by_name)
    assert PrepareSettings(format="jsonl", parts=parts[:1]).parts[0].role is None
    # Where a column says it, names of parts are names.
    check_settings(PrepareSettings(format="jsonl", parts=parts[:1], split="published", columns={"role": "s"}))


@pytest.mark.parametrize("name", ["eurlex-4k", "wiki10-31k", "amazon-670k", "amazoncat-13k"])
def test_the_papers_datasets_have_their_published_split(name: str) -> None:
    path = Path(__file__).parents[2] / "conf" / "datasets" / f"{name}.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))["prepare"]
    for split, roles in (("folds", [None, None]), ("published", ["train", "test"])):
        settings = PrepareSettings(**values, split=split)
        check_settings(settings)
        assert [part.role for part in settings.parts] == roles


def test_every_shipped_dataset_fits_its_format() -> None:
    for path in sorted((Path(__file__).parents[2] / "conf" / "datasets").glob("*.yaml")):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        others = {"evaluate", "retrievers", "dense", "static", "spark"}
        assert {"dataset", "prepare"} <= set(values) <= {"dataset", "prepare"} | others, path
        check_settings(PrepareSettings(**values["prepare"]))
    assert len(READERS.names()) == 8


def test_csv(engine, tmp_path) -> None:
    """Quotes, line breaks in fields, blank lines, and files with their columns in different orders."""
    write(tmp_path, "a.csv", ["id,text,labels", 'b0000,"one,', 'two ""three""",x|y', "", "b0001,four, x "])
    write(tmp_path, "b.csv.gz", ["labels,more,id,text", "y|,,7,five"], end="\r\n")
    parts = [{"name": "all", "texts": ["a.csv", "b.csv.gz"]}]
    raw = read(engine, tmp_path, "csv", parts=parts, label_separator="pipe", columns={"text_id": "id"})
    rows = [(row["position"], row["text_id"], row["text"], row["labels"]) for row in rows_of(engine, raw)]
    assert rows == [
        (0, "b0000", 'one,\ntwo "three"', ["x", "y"]),
        (1, "b0001", "four", ["x"]),
        (2, "7", "five", ["y"]),
    ]
    raw = read(engine, tmp_path, "csv", parts=[{"name": "all", "texts": "a.csv"}])
    assert texts_of(engine, raw)[0][1] == ["x|y"]


def test_csv_with_a_file_of_label_names(engine, tmp_path) -> None:
    write(tmp_path, "t.csv", ["text;labels", "a;x|y"])
    write(tmp_path, "labels.csv", ["label;name;alt_names", "x;Ex;ix|iks", "y;Why;"])
    settings = {"delimiter": "semicolon", "label_separator": "pipe", "label_file": "labels.csv"}
    raw = read(engine, tmp_path, "csv", parts=[{"name": "all", "texts": "t.csv"}], **settings)
    assert texts_of(engine, raw) == {0: ("a", ["x", "y"])}
    assert labels_of(raw) == [("x", "Ex"), ("y", "Why")]
    assert raw.labels is not None and raw.labels["alt_names"].to_pylist() == [["ix", "iks"], []]


def test_csv_problems(engine, tmp_path) -> None:
    parts = [{"name": "all", "texts": "t.csv"}]
    path = write(tmp_path, "t.csv", ["text,labels", "a,x", "b", "c,x,y", "d,x", '"open,x', "more,x"])
    problems = problems_of(engine, read(engine, tmp_path, "csv", parts=parts))
    assert problems == [
        f"{path} line 3: 1 fields, and the first line names 2 columns",
        f"{path} line 4: 3 fields, and the first line names 2 columns",
        f"{path} line 6: unexpected end of data; is a quote missing?",
    ]
    path.write_bytes("text,labels\na,x\né,x\n".encode("latin-1"))
    assert problems_of(engine, read(engine, tmp_path, "csv", parts=parts))[-1].startswith(f"{path} line 3: not UTF-8")
    write(tmp_path, "t.csv", ["txt,labels", "a,x"])
    with pytest.raises(InputError, match=r"t.csv: missing column 'text'; it has txt, labels"):
        read(engine, tmp_path, "csv", parts=parts)
    write(tmp_path, "t.csv", ["text,labels,labels", "a,x,y"])
    with pytest.raises(InputError, match=r"t.csv: the column 'labels' is there 2 times; keep one"):
        read(engine, tmp_path, "csv", parts=parts)
    write(tmp_path, "t.csv", ["text,labels,,", "a,x,,"])
    assert texts_of(engine, read(engine, tmp_path, "csv", parts=parts)) == {0: ("a", ["x"])}
    write(tmp_path, "t.csv", ["text,labels"])
    with pytest.raises(InputError, match=r"t.csv is empty"):
        read(engine, tmp_path, "csv", parts=parts)
    write(tmp_path, "t.csv", ["PK\x03\x04,text,labels", "b,a,x"])
    with pytest.raises(InputError, match=r"t.csv is a zip archive; expected text"):
        read(engine, tmp_path, "csv", parts=parts)


def test_labels_in_one_string(engine, tmp_path) -> None:
    write(tmp_path, "t.jsonl", ['{"text": "a", "labels": "x y; z"}', '{"text": "b", "labels": ["x;y"]}'])
    pq.write_table(pa.table({"text": ["a"], "labels": ["x y; z"]}), tmp_path / "t.parquet")
    for form in ("jsonl", "parquet"):
        parts = [{"name": "all", "texts": f"t.{form}"}]
        assert texts_of(engine, read(engine, tmp_path, form, parts=parts, label_separator="semicolon"))[0] == (
            "a",
            ["x y", "z"],
        )
        assert texts_of(engine, read(engine, tmp_path, form, parts=parts, label_separator="single"))[0][1] == ["x y; z"]
