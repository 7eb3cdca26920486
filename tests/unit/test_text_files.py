"""Text files as people have them: other encodings, other names, other ids."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import xmtc_fusion as xf
from fusion.errors import InputError
from jobs.evaluation import evaluate
from jobs.inputs.sources import file_kind, source_format
from udfs import text_files
from udfs.lists import in_two_forms

RUN = "t1 Q0 {a} 1 2.0 x\nt1 Q0 {b} 2 1.0 x\n"
QRELS = "t1 0 {a} 1\n"


def files(folder: Path, encoding: str = "utf-8", suffix: str = "") -> dict[str, object]:
    labels = {"a": "café", "b": "cafè"}
    for name in ("one", "two"):
        (folder / f"{name}{suffix}").write_bytes(RUN.format(**labels).encode(encoding))
    (folder / f"qrels{suffix}").write_bytes(QRELS.format(**labels).encode(encoding))
    runs = {name: str(folder / f"{name}{suffix}") for name in ("one", "two")}
    return {"inputs.candidates": runs, "inputs.judgements": str(folder / f"qrels{suffix}"), "grid.engine": "local"}


def figures(settings: dict[str, object], **more: object) -> dict[str, float]:
    chosen = {"grid.cells": ["zmuv+combmnz"], "evaluate.metrics": "precision@1,precision@5", "evaluate.details": False}
    result = evaluate.run(None, xf.load_config(settings={**settings, **chosen, **more}))
    rows = [row for row in result.metrics.to_pylist() if row["fusion"] == "combmnz" and row["label_group"] == "all"]
    return {f"{row['metric']}@{row['k']}": row["value"] for row in rows}


def test_labels_that_differ_by_an_accent(tmp_path: Path) -> None:
    assert figures(files(tmp_path)) == {"precision@1": 1.0, "precision@5": 0.2}
    with pytest.raises(InputError, match=r"qrels line 1: not UTF-8; convert the file"):
        figures(files(tmp_path, "latin-1"))


@pytest.mark.parametrize("suffix", ["", ".fusion1", ".v2.final", ".parquet", ".gz"])
def test_a_text_file_by_any_name(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = files(tmp_path, suffix=suffix)
    assert figures(settings)["precision@1"] == 1.0
    monkeypatch.chdir(tmp_path)
    assert source_format(f"one{suffix}") == ("trec", f"one{suffix}")


@pytest.mark.parametrize("suffix", ["", ".trec", ".gz", ".parquet"])
def test_gzip_by_any_name(tmp_path: Path, suffix: str) -> None:
    settings = files(tmp_path, suffix=suffix)
    for path in tmp_path.iterdir():
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert figures(settings)["precision@1"] == 1.0


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"PK\x03\x04rest", "a zip archive"),
        (b"BZh9", "bzip2"),
        (b"\xff\xfet\x001\x00", "UTF-16"),
        (b"\0\0\0\3", "neither Parquet nor text"),
    ],
)
def test_other_files_are_refused_by_what_they_are(tmp_path: Path, content: bytes, what: str) -> None:
    (tmp_path / "run.trec").write_bytes(content)
    with pytest.raises(InputError, match=what):
        file_kind(str(tmp_path / "run.trec"))


def test_names_of_tables_stay_names_of_tables(tmp_path: Path) -> None:
    assert source_format("catalog.schema.table") == ("table", "catalog.schema.table")
    assert source_format("table:one") == ("table", "one")
    assert source_format(str(tmp_path)) == ("parquet", str(tmp_path))


RUNS = {"one": {"t1": {"a": 2.0, "b": 1.0}}, "two": {"t1": {"a": 2.0, "b": 1.0}}}


def test_judgements_of_other_texts_are_refused() -> None:
    with pytest.raises(InputError, match="none of its 2 texts has candidates in any run"):
        xf.evaluate({"x1": ["a"], "x2": ["b"]}, RUNS)


def test_a_run_without_a_relevant_label_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    runs = {**RUNS, "two": {"t1": {"A": 2.0, "B": 1.0}}}
    xf.evaluate({"t1": ["a"]}, runs)
    message = capsys.readouterr().err
    assert "warning: every figure of two is 0" in message
    assert "warning: one" not in message


@pytest.mark.parametrize(
    ("score", "what"),
    [(1e200, "whose square overflows"), (float("nan"), "NaN, infinite"), (float("-inf"), "NaN, infinite")],
)
def test_scores_that_are_no_use_are_told_with_their_label(score: float, what: str) -> None:
    runs = {**RUNS, "two": {"t0": {"a": 1.0}, "t1": {"a": 2.0, "bad": score, "b": 1.0}}}
    with pytest.raises(InputError, match=rf"{what}.*\n.*text_id t1, label bad"):
        xf.evaluate({"t1": ["a"]}, runs)


def test_a_label_without_a_group_is_named() -> None:
    with pytest.raises(InputError, match=r"not in label groups.*\n.*text_id t1.*label b"):
        xf.evaluate({"t1": ["a"]}, RUNS, label_groups={"a": "head"})


@pytest.mark.parametrize(
    ("scores", "what"),
    [
        ({"a": 1.0, "b": True}, "scores must be numbers; text 't1', label 'b' has true or false"),
        ({"a": 1.0, "\ud800": 2.0}, "'.ud800' holds half of a character"),
        ({1: 1.0, 2**63: 2.0}, f"{2**63} has more than 64 bits; write such ids as strings"),
    ],
)
def test_dictionaries_that_are_no_runs(scores: dict[object, float], what: str) -> None:
    with pytest.raises(InputError, match=what):
        xf.evaluate({"t1": ["a"]}, {**RUNS, "two": {"t1": scores}})


@pytest.mark.parametrize("block", [1, 7, 64])
def test_lines_of_any_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    """Where a block of the file ends changes nothing, in packed files as in plain ones."""
    monkeypatch.setattr(text_files, "BLOCK", max(block, len(text_files.MARK)))
    content = "first\r\nsecond é\n\nlast of all, and longer than a block of bytes".encode()
    for name, written in (
        ("plain", content),
        ("marked", text_files.MARK + content),
        ("packed", gzip.compress(content)),
    ):
        (tmp_path / name).write_bytes(written)
        assert list(text_files.read_lines(str(tmp_path / name), name)) == content.splitlines()
        assert text_files.read_text(str(tmp_path / name), name) == content.decode()
    (tmp_path / "latin").write_bytes(content.replace("é".encode(), b"\xe9"))
    with pytest.raises(InputError, match="latin line 2: not UTF-8"):
        list(text_files.read_lines(str(tmp_path / "latin"), "latin"))


def test_labels_in_two_forms() -> None:
    assert in_two_forms(["a", "\u00e9", "e\u0301", "\u00ea"]) == [["e\u0301", "\u00e9"]]
