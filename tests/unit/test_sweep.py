"""Old versions of stages go, but never one that something was made from."""

from __future__ import annotations

import os
import time
from pathlib import Path

from jobs.storage.folders import ResultFolder
from jobs.storage.stages import run_stage, stage_fingerprint, stage_folder
from jobs.storage.versions import one_view
from jobs.storage.workspace import sweep


def write(folder: ResultFolder) -> dict[str, int]:
    folder.write_text("rows.txt", "rows")
    return {}


def build(path: Path, seed: int, **inputs: str | None) -> Path:
    run_stage("stage", str(path), {"seed": seed, **inputs}, write)
    return Path(stage_folder(str(path)).removeprefix("file://"))


def age(*folders: Path, hours: float = 100) -> None:
    then = time.time() - 3600 * hours
    for file in (file for folder in folders for file in folder.rglob("*")):
        os.utime(file, (then, then))


def test_the_newest_stay(tmp_path: Path) -> None:
    versions = [build(tmp_path / "stage", seed) for seed in range(4)]
    for number, folder in enumerate(versions):
        age(folder, hours=100 - number)
    # The current one may be the oldest.
    build(tmp_path / "stage", 0)
    assert sorted(sweep(str(tmp_path), keep=2, hours=48)) == sorted(map(str, versions[1:3]))
    assert [folder.exists() for folder in versions] == [True, False, False, True]
    assert (tmp_path / "stage" / "rows.txt").read_text() == "rows"


def test_young_versions_stay(tmp_path: Path) -> None:
    versions = [build(tmp_path / "stage", seed) for seed in range(3)]
    assert sweep(str(tmp_path), keep=1, hours=48) == []
    age(*versions)
    assert len(sweep(str(tmp_path), keep=1, hours=48)) == 2


def test_what_something_was_made_from_stays(tmp_path: Path) -> None:
    with one_view():
        used = build(tmp_path / "prepared", 1)
        made = build(tmp_path / "deep" / "lists", 1, prepared=stage_fingerprint(str(tmp_path / "prepared")))
    unused, current = build(tmp_path / "prepared", 2), build(tmp_path / "prepared", 3)
    age(used, made, unused, current)
    assert sweep(str(tmp_path), keep=1, hours=48) == [str(unused)]
    assert used.exists()
    # Once the lists are gone, so is the reason to keep it.
    build(tmp_path / "deep" / "lists", 2)
    assert sweep(str(tmp_path), keep=1, hours=48) == [str(made)]
    assert sweep(str(tmp_path), keep=1, hours=48) == [str(used)]


def test_what_killed_writers_left_goes(tmp_path: Path) -> None:
    current = build(tmp_path / "stage", 1)
    left = tmp_path / "stage" / f"{'0' * 16}-{'1' * 8}"
    left.mkdir()
    (left / "half").write_text("half")
    assert sweep(str(tmp_path), keep=2, hours=0) == []
    age(left)
    assert sweep(str(tmp_path), keep=2, hours=0) == [str(left)]
    assert current.exists()
