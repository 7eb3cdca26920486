"""Job `init`: what is guessed about files of several shapes, and what is said where nothing can be."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from fusion.errors import ConfigError, InputError, OutputError, visible
from jobs.cli import main
from jobs.datasets import guess, look, prepare
from jobs.engines.local import LocalEngine
from jobs.settings.config import load_config

TEXTS = ["The rain in Spain stays mainly in the plain.", "A tram and a bus meet at the station.", "No wind, no power."]
TOPICS = [["weather", "travel"], ["travel"], ["power", "weather"]]


def write_csv(path: Path, rows: list[dict[str, str]], delimiter: str = ",") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def made(path: Path, **given: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """The section `prepare` that is written, and the reasons."""
    output = path.parent / "conf" / "mine.yaml"
    output.unlink(missing_ok=True)
    guess.run(str(path), str(output), given)
    return yaml.safe_load(output.read_text())["prepare"], guess.guess(str(path), given).reasons


def prepared(path: Path, work: Path, **given: Any) -> dict[str, Any]:
    """The statistics of the dataset that the written configuration describes."""
    output = work / "mine.yaml"
    guess.run(str(path), str(output), given)
    config = load_config(str(output), {"work.path": str(work), "prepare.folds": 2, "prepare.validation_share": 0})
    return prepare.run(LocalEngine(), config)


def rows(**columns: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize(("delimiter", "name"), [(",", "comma"), (";", "semicolon"), ("\t", "tab"), ("|", "pipe")])
@pytest.mark.parametrize(("between", "separator"), [(";", "semicolon"), ("|", "pipe"), (", ", "comma")])
def test_separated_values(tmp_path, delimiter, name, between, separator) -> None:
    topics = [between.join(labels) for labels in TOPICS]
    table = rows(doc_id=["b0000", "b0001", "b0002"], title=["One\nline", "two", 'a "third"'], text=TEXTS, topics=topics)
    section, reasons = made(write_csv(tmp_path / "t.csv", table, delimiter))
    assert section.pop("delimiter", "comma") == name
    assert section == {
        "format": "csv",
        "folder": "..",
        "parts": [{"name": "all", "texts": "t.csv"}],
        "label_separator": separator,
        "columns": {"text_id": "doc_id", "text": ["title", "text"], "labels": "topics"},
        "folds": 3,
        "validation_share": 0.3,
    }
    assert (
        reasons["labels"].startswith("topics, by its name; strings")
        and "3 different ones, 1.7 per text" in reasons["labels"]
    )


def test_what_is_written_can_be_prepared(tmp_path) -> None:
    table = rows(
        nr=[f"b{n:04}" for n in range(12)],
        headline=[f"Line {n},\nand one more" for n in range(12)],
        body=["x " * n + "end" for n in range(12)],
        codes=["a1 b2" if n % 2 else "b2 c3" for n in range(12)],
    )
    found = prepared(write_csv(tmp_path / "t.csv", table), tmp_path)
    assert (found["texts"], found["labels"], found["pairs"]) == (12, 3, 24)


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz", "t.json"])
def test_json_lines(tmp_path, name) -> None:
    path = write_lines(tmp_path / name, rows(id=[3, 1, 2], lang=["en", "de", "en"], abstract=TEXTS, subjects=TOPICS))
    section, reasons = made(path)
    assert section["format"] == "jsonl" and "label_separator" not in section
    assert section["columns"] == {"text_id": "id", "text": "abstract", "labels": "subjects"}
    assert reasons["language"] == "en (2), de (1), from the column lang"
    assert reasons["names"] == "the labels are words, and are their own names"


def test_parquet_and_a_file_of_label_names(tmp_path) -> None:
    codes = [["4.02", "1.1"], ["1.1"], None] * 8
    table = pa.table({"text": [f"Text {n}" for n in range(24)], "marks": pa.array(codes, pa.list_(pa.string()))})
    pq.write_table(table, tmp_path / "t.parquet")
    assert made(tmp_path / "t.parquet")[1]["names"].startswith("none, since the labels are codes")
    write_lines(tmp_path / "labels.jsonl", rows(code=["1.1", "4.02"], rank=[1, 2], title=["One", "Four"]))
    section, reasons = made(tmp_path / "t.parquet")
    assert section["columns"] == {"text": "text", "labels": "marks", "label": "code", "name": "title"}
    assert section["label_file"] == "labels.jsonl"
    assert reasons["names"] == "title of labels.jsonl, whose code has the labels"
    found = prepared(tmp_path / "t.parquet", tmp_path / "work")
    assert (found["texts"], found["named_labels"]) == (16, 2)


def test_ids_that_are_none(tmp_path) -> None:
    table = rows(id=["a", "b", "a"], text=TEXTS, label=["x", "y", "x"])
    section, reasons = made(write_csv(tmp_path / "t.csv", table))
    assert section["columns"] == {"text": "text", "labels": "label"} and "label_separator" not in section
    assert reasons["id"] == "none, texts are numbered; id is not one, since 'a' occurs more than once"
    section, reasons = made(write_csv(tmp_path / "t.csv", rows(text=TEXTS, label=["x", "y", "x"])))
    assert reasons["id"] == "none, texts are numbered in the order of the file"
    assert "one label each, 2 different ones" in reasons["labels"]


def test_columns_by_what_they_hold(tmp_path) -> None:
    """No name says anything: labels repeat, the text has the most words."""
    table = rows(a=[f"A sentence about the topic {n}." for n in range(8)], b=["u; v", "v"] * 4, c=list("abcdefgh"))
    section, reasons = made(write_csv(tmp_path / "t.csv", table))
    assert section["columns"] == {"text": "a", "labels": "b"} and section["label_separator"] == "semicolon"
    assert reasons["labels"].startswith("b, since its values repeat")
    assert reasons["text"].startswith("a, the column with the most words")


def test_what_the_user_says_counts(tmp_path) -> None:
    table = rows(
        id=["1", "2", "3"], text=TEXTS, note=TEXTS, tags=["x", "y", "x"], nr=["7", "8", "9"], kind=["k", "l", "k"]
    )
    section, _ = made(write_csv(tmp_path / "t.csv", table), text="note,text", labels="kind", text_id="nr")
    assert section["columns"] == {"text_id": "nr", "text": ["note", "text"], "labels": "kind"}
    with pytest.raises(InputError, match="column 'tags' cannot hold the ids: 'x' occurs more than once"):
        made(tmp_path / "t.csv", text_id="tags")
    with pytest.raises(ConfigError, match=r"t.csv has no column 'knd' \(labels\); it has id, text, note, tags"):
        made(tmp_path / "t.csv", labels="knd")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "id,text\n1,a b c d\n2,e f g h\n",
            "no column looks like labels; say which one does with --labels",
        ),
        ('{"a": ["x"], "b": ["y"], "text": "t"}\n', "'a' and 'b' may hold labels; say which one does with --labels"),
        ('{"tags": ["x"], "n": 3}\n', "no column looks like a text; say which ones do with --text"),
        (
            "text,labels\none,\"['a', 'b']\"\n",
            "column 'labels' holds lists that were written as text, as in \"\\['a', 'b'\\]",
        ),
        ('[{"text": "a", "labels": ["x"]}]', "holds one JSON list; one object per line is needed"),
        ('{\n"text": "a"\n}\n', "line 1: broken JSON .*; a record must stand on one line"),
        ('{"text": "a", "labels": []}\n', "column 'labels' holds no label"),
        ('{"text": "a", "text": "b", "labels": ["x"]}\n', "line 1: the key 'text' occurs 2 times"),
        (f'{{"text": {"[" * 100_000}', "line 1: JSON with too many lists"),
        ("only one\ncolumn\n", "neither JSON lines nor Parquet nor values separated by"),
        ("id,text,labels\n1,a,x\n2,b\n3,c,y\n", "t.txt line 3: 2 fields, and the first line names 3 columns"),
        ("text,text\na,b\n", "line 1 must name the columns, each once"),
        ("", "is empty"),
    ],
)
def test_what_cannot_be_guessed(tmp_path, content, message) -> None:
    (tmp_path / "t.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        guess.guess(str(tmp_path / "t.txt"), {})


def test_text_that_is_not_utf8(tmp_path) -> None:
    (tmp_path / "t.csv").write_bytes("text,labels\né,x\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"t.csv line 2: not UTF-8"):
        guess.guess(str(tmp_path / "t.csv"), {})


def test_a_large_file_is_not_read_whole(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(look, "BYTES", 1000)
    table = rows(text=["words, and\nmore of them"] * 500, labels=["x;y"] * 500)
    section, reasons = made(write_csv(tmp_path / "t.csv", table))
    assert "folds" not in section and section["columns"] == {"text": "text", "labels": "labels"}
    assert 10 < int(reasons["file"].partition("the first ")[2].split()[0]) < 50


def test_the_command(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "my texts.csv", rows(text=TEXTS, labels=["x", "y", "x"]))
    assert main(["init", "my texts.csv"]) == 0
    printed = capsys.readouterr()
    assert yaml.safe_load(printed.out)["dataset"] == "my-texts" and "by its name" in printed.err
    assert main(["init", "my texts.csv", "--output", "mine.yaml"]) == 0
    assert load_config("mine.yaml").prepare.folder == "."
    assert "Next: xmtc-fusion run --config mine.yaml" in capsys.readouterr().out
    hidden = {"text": TEXTS, "labels": ["x\x1b[31m", "y", "x\x1b[31m"], "a\x1b[2Jb": ["1", "2", "3"]}
    write_csv(tmp_path / "hidden.csv", rows(**hidden))
    assert main(["init", "hidden.csv"]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.out + printed.err and "a\\x1b[2Jb" in printed.err
    assert main(["init", "my texts.csv", "--output", "mine.yaml"]) == OutputError.exit_code
    assert "mine.yaml is there already" in capsys.readouterr().err
    assert main(["init", "my texts.csv", "--output", "my texts.csv/mine.yaml"]) == OutputError.exit_code
    assert "cannot write my texts.csv/mine.yaml: " in capsys.readouterr().err


def test_names_do_nothing_on_the_terminal_and_are_kept(tmp_path, monkeypatch, capsys) -> None:
    """Control characters, and those that turn the direction of reading, of a column and of a file."""
    monkeypatch.chdir(tmp_path)
    text, name = "te\x1b[2J\nFORGED\u202e\u2028\U0001f600xt", "d\u202e\x9b.jsonl"
    write_lines(tmp_path / name, rows(**{text: TEXTS, "labels": TOPICS}))
    for output in ([], ["--output", "d\u202e.yaml"]):
        assert main(["init", name, *output]) == 0
        printed = capsys.readouterr()
        assert visible(printed.out + printed.err, lines=True) == printed.out + printed.err
        assert "\nFORGED" not in printed.out + printed.err
    config = load_config("d\u202e.yaml").prepare
    assert (config.columns.text, config.parts[0].texts) == (text, name)
    assert main(["config", "--config", "d\u202e.yaml"]) == 0
    printed_config = capsys.readouterr().out
    assert visible(printed_config, lines=True) == printed_config
    assert yaml.safe_load(printed_config)["prepare"]["columns"]["text"] == text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.parquet", b"PAR1 and nothing PAR1", r"cannot read .*/t.parquet: "),
        ("t.jsonl.gz", gzip.compress(b"\n", mtime=0), r"t.jsonl.gz is empty"),
        ("t.csv.gz", gzip.compress(b"PK\x03\x04", mtime=0), r"t.csv.gz is a zip archive; expected text"),
    ],
)
def test_files_that_are_not_what_they_seem(tmp_path, name, content, message) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        guess.guess(str(tmp_path / name), {})


def test_a_column_twice(tmp_path) -> None:
    columns = [pa.array(TEXTS), pa.array(TOPICS), pa.array(TEXTS)]
    pq.write_table(pa.table(columns, names=["text", "labels", "text"]), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"t.parquet must name the columns, each once; they are: text, labels, text"):
        guess.guess(str(tmp_path / "t.parquet"), {})
