"""Results and stages: whole or not at all, and done once."""

from __future__ import annotations

import csv
import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fusion.errors import InputError, OutputError
from jobs.runtime.folders import ResultFolder, check_output, whole_folder
from jobs.runtime.stages import input_fingerprint, run_stage, stage_fingerprint
from jobs.settings import OutputSettings


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_nothing_appears_before_the_end(tmp_path: Path) -> None:
    settings = OutputSettings(path=str(tmp_path / "out"))
    with whole_folder(settings) as folder:
        folder.write_text("a.txt", "a")
        assert not (tmp_path / "out").exists()
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "a.txt").read_text() == "a"


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    old = tmp_path / "out"
    old.mkdir()
    (old / "config.yaml").write_text("old")
    with (
        pytest.raises(RuntimeError, match="half way"),
        whole_folder(OutputSettings(path=str(old), mode="overwrite")) as folder,
    ):
        folder.write_text("config.yaml", "new")
        raise RuntimeError("half way")
    assert names(tmp_path) == ["out"]
    assert (old / "config.yaml").read_text() == "old"


def test_overwrite_replaces_the_whole_folder(tmp_path: Path) -> None:
    old = tmp_path / "out"
    old.mkdir()
    for name in ("config.yaml", "metrics.csv"):
        (old / name).write_text("old")
    with whole_folder(OutputSettings(path=str(old), mode="overwrite")) as folder:
        folder.write_text("config.yaml", "new")
    assert names(tmp_path) == ["out"]
    assert names(old) == ["config.yaml"]


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(OutputError, match="left alone"):
        check_output(OutputSettings(path=str(tmp_path), mode="overwrite"))
    with pytest.raises(OutputError, match="exists already"):
        check_output(OutputSettings(path=str(tmp_path)))
    with pytest.raises(OutputError, match="left alone"):
        check_output(OutputSettings(path=str(tmp_path / "thesis.tex"), mode="overwrite"))


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    old, new, other = (tmp_path / f".{name}.{'0' * 11}{n}.part" for n, name in enumerate(("out", "out", "out.2")))
    for part in (old, new, other):
        part.mkdir()
        (part / "rows.txt").write_text("half")
    long_ago = time.time() - 3 * 86_400
    for part in (old, other):
        os.utime(part, (long_ago, long_ago))
    with whole_folder(OutputSettings(path=str(tmp_path / "out"))):
        pass
    assert names(tmp_path) == sorted([new.name, other.name, "out"])


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OutputError, match="cannot write"),
        whole_folder(OutputSettings(path=str(tmp_path / "file" / "out"))),
    ):
        pass


def test_a_stage_is_built_once(tmp_path: Path) -> None:
    path = str(tmp_path / "stage")
    built = []

    def build(folder: ResultFolder) -> dict[str, int]:
        built.append(1)
        folder.write_text("rows.txt", "rows")
        return {"rows": 3}

    assert run_stage("count", path, {"seed": 1}, build)
    assert not run_stage("count", path, {"seed": 1}, build)
    assert len(built) == 1
    assert run_stage("count", path, {"seed": 2}, build)
    assert run_stage("count", path, {"seed": 2}, build, ["fusion.errors", "udfs"])
    assert not run_stage("count", path, {"seed": 2}, build, ["fusion.errors", "udfs"])
    assert json.loads((tmp_path / "stage" / "stage.json").read_text())["rows"] == 3
    assert input_fingerprint(path) == stage_fingerprint(path)


def test_fingerprints_follow_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    before = input_fingerprint(str(tmp_path))
    assert before == input_fingerprint(str(tmp_path))
    (tmp_path / "a.txt").rename(tmp_path / "b.txt")
    assert before == input_fingerprint(str(tmp_path))
    (tmp_path / "run=1").mkdir()
    (tmp_path / "b.txt").rename(tmp_path / "run=1" / "a.txt")
    assert before != input_fingerprint(str(tmp_path))
    (tmp_path / "a.txt").write_text("two")
    assert input_fingerprint(str(tmp_path)) != before
    with pytest.raises(InputError, match="does not exist"):
        input_fingerprint(str(tmp_path / "gone"))


def test_lists_are_json_in_csv(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "names": [["x, y", 'the "z"'], None], "right": [[True, False], []]})
    with whole_folder(OutputSettings(path=str(tmp_path / "out"))) as folder:
        folder.write_table("lists", table)
        folder.write_table("unread", table, as_csv=False)
    rows = list(csv.DictReader((tmp_path / "out" / "lists.csv").open()))
    assert [json.loads(row["names"]) if row["names"] else None for row in rows] == table["names"].to_pylist()
    assert [json.loads(row["right"]) for row in rows] == table["right"].to_pylist()
    assert pq.read_table(tmp_path / "out" / "unread.parquet") == table
    assert not (tmp_path / "out" / "unread.csv").exists()
