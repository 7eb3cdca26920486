"""Results and stages: whole or not at all, and done once."""

from __future__ import annotations

import csv
import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fusion.errors import InputError, OutputError
from jobs.settings.base import OutputSettings
from jobs.storage.folders import ResultFolder, check_output, read_text, whole_folder
from jobs.storage.stages import input_fingerprint, run_stage, stage_fingerprint, stage_folder
from jobs.storage.versions import one_view, resolve


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def shown(folder: Path) -> list[str]:
    """What people see of a folder."""
    return [name for name in names(folder) if not name.startswith(".")]


def test_nothing_appears_before_the_end(tmp_path: Path) -> None:
    settings = OutputSettings(path=str(tmp_path / "out"))
    with whole_folder(settings) as folder:
        folder.write_text("a.txt", "a")
        assert shown(tmp_path / "out") == []
        assert read_text(f"{tmp_path}/out/a.txt") is None
    assert shown(tmp_path / "out") == ["a.txt"]
    assert (tmp_path / "out" / "a.txt").read_text() == "a"


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    settings = OutputSettings(path=str(tmp_path / "out"), mode="overwrite")
    for content in ("old", "new"):
        with suppress(RuntimeError), whole_folder(settings) as folder:
            folder.write_text("config.yaml", content)
            if content == "new":
                raise RuntimeError("half way")
    assert (tmp_path / "out" / "config.yaml").read_text() == "old"
    assert len(list((tmp_path / "out" / ".versions").iterdir())) == 1
    with suppress(RuntimeError), whole_folder(OutputSettings(path=str(tmp_path / "never"))):
        raise RuntimeError("at once")
    assert names(tmp_path) == ["out"]


def test_overwrite_replaces_all_results_at_once(tmp_path: Path) -> None:
    settings = OutputSettings(path=str(tmp_path / "out"), mode="overwrite")
    for number, files in enumerate((["config.yaml", "metrics.csv", "rows.parquet/part-0"], ["config.yaml", "new.csv"])):
        with whole_folder(settings) as folder:
            for name in files:
                folder.write_text(name, str(number))
    assert shown(tmp_path / "out") == ["config.yaml", "new.csv"]
    assert (tmp_path / "out" / "config.yaml").read_text() == "1"


def test_files_of_people_beside_results_stay(tmp_path: Path) -> None:
    settings = OutputSettings(path=str(tmp_path / "out"), mode="overwrite")
    with whole_folder(settings) as folder:
        folder.write_text("metrics.csv", "old")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with whole_folder(settings) as folder:
        folder.write_text("metrics.csv", "new")
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "out" / "metrics.csv").read_text() == "new"


def test_what_was_made_of_replaced_results_goes(tmp_path: Path) -> None:
    """The report of results lies inside them, and would be about others."""
    for path in ("out", "out/report", "out"):
        with whole_folder(OutputSettings(path=str(tmp_path / path), mode="overwrite")) as folder:
            folder.write_text("config.yaml", path)
    assert shown(tmp_path / "out") == ["config.yaml"]


@pytest.mark.parametrize("name", ["config.yaml", "stage.json", "thesis.tex"])
def test_folders_of_others_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("years of work")
    with pytest.raises(OutputError, match="left alone"):
        check_output(OutputSettings(path=str(tmp_path), mode="overwrite"))
    with pytest.raises(OutputError, match="exists already"):
        check_output(OutputSettings(path=str(tmp_path)))
    with pytest.raises(OutputError, match="left alone"):
        check_output(OutputSettings(path=str(tmp_path / name), mode="overwrite"))
    assert names(tmp_path) == [name]


def test_what_killed_writers_left_is_swept(tmp_path: Path) -> None:
    hidden = tmp_path / "out" / ".versions"
    old, young = (hidden / f"{'0' * 16}-{'0' * 7}{n}" for n in range(2))
    for left in (old, young):
        left.mkdir(parents=True)
        (left / "rows.txt").write_text("half")
    long_ago = time.time() - 3 * 86_400
    os.utime(old / "rows.txt", (long_ago, long_ago))
    # What a killed writer has left is in nobody's way.
    with whole_folder(OutputSettings(path=str(tmp_path / "out"))) as folder:
        folder.write_text("rows.txt", "whole")
    assert not old.exists()
    assert young.exists()


def test_the_output_is_tried_before_any_work(tmp_path: Path) -> None:
    check_output(OutputSettings(path=str(tmp_path / "deep" / "out")))
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="not a folder"):
        check_output(OutputSettings(path=str(tmp_path / "file" / "out")))


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
    assert (tmp_path / "stage" / "rows.txt").read_text() == "rows"
    # Going back to settings of before needs no building.
    assert not run_stage("count", path, {"seed": 1}, build)
    assert len(built) == 3
    assert input_fingerprint(path) == stage_fingerprint(path)


def test_a_marker_names_what_the_stage_read_and_nothing_else(tmp_path: Path) -> None:
    """A job that builds many stages has seen many versions; each stage was made from a few of them."""
    places = {name: str(tmp_path / name) for name in ("prepared", "index", "model", "other/index", "lists", "late")}

    def made_from(name: str) -> dict[str, str]:
        return dict(json.loads((tmp_path / name / "stage.json").read_text())["made_from"])

    def version(name: str) -> str:
        return Path(stage_folder(places[name])).name

    def read(folder: ResultFolder) -> dict[str, int]:
        folder.write_text("rows.txt", f"{stage_folder(places['model'])} {resolve(f'{prepared}/rows.txt')}")
        return {}

    with one_view():
        for name in ("prepared", "index", "model", "other/index"):
            run_stage("count", places[name], {"name": name}, write)
        prepared = stage_folder(places["prepared"])
        # Read while it is built: one place that is looked up then, and one that was looked up before.
        run_stage("count", places["lists"], {"of": "lists"}, read)
        # Read by Spark, later: what the stage's key says.
        run_stage("count", places["late"], {"inputs": [{"index": input_fingerprint(places["index"])}]}, write)
        assert [made_from(name) for name in ("prepared", "model")] == [{}, {}]
        assert made_from("lists") == {"../model": version("model"), "../prepared": version("prepared")}
        assert made_from("late") == {"../index": version("index")}


def write(folder: ResultFolder) -> dict[str, int]:
    folder.write_text("rows.txt", "rows")
    return {}


@pytest.mark.parametrize("broken", ["", "{", "[]", '"text"', '{"stage": "count"}'])
def test_a_broken_marker_means_that_the_stage_is_built_again(tmp_path: Path, broken: str) -> None:
    path = str(tmp_path / "stage")
    run_stage("count", path, {}, write)
    (tmp_path / "stage" / "stage.json").write_text(broken)
    assert stage_fingerprint(path) is None
    assert run_stage("count", path, {}, write)
    assert stage_fingerprint(path) is not None


@pytest.mark.parametrize("broken", ["", "{", '{"version": "../../etc"}', '{"version": 3}'])
def test_a_broken_pointer_is_put_again(tmp_path: Path, broken: str) -> None:
    path = str(tmp_path / "stage")
    run_stage("count", path, {}, write)
    (tmp_path / "stage" / ".current.json").write_text(broken)
    assert not run_stage("count", path, {}, write)
    assert stage_folder(path).startswith(f"file://{path}/")


def test_a_job_reads_one_version_from_beginning_to_end(tmp_path: Path) -> None:
    path = str(tmp_path / "stage")
    with one_view():
        run_stage("count", path, {"seed": 1}, write)
        mine = stage_folder(path)
        # Somebody else, with other settings.
        with ThreadPoolExecutor(1) as other:
            assert other.submit(run_stage, "count", path, {"seed": 2}, write).result()
        assert stage_folder(path) == mine
    assert stage_folder(path) != mine


def test_two_writers_of_one_stage_do_not_meet(tmp_path: Path) -> None:
    path, both = str(tmp_path / "stage"), Barrier(2, timeout=20)

    def build(folder: ResultFolder) -> dict[str, int]:
        both.wait()
        # As Spark does: names that nobody else has.
        folder.write_text(f"rows-{folder.uri[-8:]}.txt", "rows")
        both.wait()
        return {}

    with ThreadPoolExecutor(2) as writers:
        assert all(writers.map(lambda _: run_stage("count", path, {}, build), range(2)))
    assert len(list(Path(stage_folder(path).removeprefix("file://")).glob("rows-*"))) == 1


def test_links_that_another_writer_is_making_stay(tmp_path: Path) -> None:
    """A writer removes links to what the new version has not, but none that is about to be put in place."""

    def build(folder: ResultFolder) -> dict[str, int]:
        folder.write_text("rows.txt", "rows")
        return {}

    stage = tmp_path / "stage"
    run_stage("count", str(stage), {"seed": 1}, build)
    (stage / ".new.txt.0123456789ab.tmp").symlink_to(".current/new.txt")
    (stage / "old.txt").symlink_to(".current/old.txt")
    run_stage("count", str(stage), {"seed": 2}, build)
    assert (stage / ".new.txt.0123456789ab.tmp").is_symlink()
    assert not (stage / "old.txt").is_symlink() and (stage / "rows.txt").read_text() == "rows"


def test_a_copied_work_folder_still_works(tmp_path: Path) -> None:
    """Copies may have files and folders where the original has links."""

    def build(folder: ResultFolder) -> dict[str, int]:
        folder.write_text("table.parquet/part-0", folder.uri)
        return {}

    run_stage("count", str(tmp_path / "one" / "stage"), {"seed": 1}, build)
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert not (tmp_path / "two" / "stage" / "table.parquet").is_symlink()
    path = str(tmp_path / "two" / "stage")
    assert not run_stage("count", path, {"seed": 1}, build)
    assert run_stage("count", path, {"seed": 2}, build)
    assert (tmp_path / "two" / "stage" / "table.parquet" / "part-0").read_text() == stage_folder(path)


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


def test_a_stage_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: ResultFolder) -> dict[str, int]:
        folder.write_text("rows.txt", "half")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        run_stage("count", str(tmp_path / "stage"), {}, fail)
    assert names(tmp_path) == []
