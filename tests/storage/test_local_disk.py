"""Results on a local disk: plain paths show the old ones or the new ones, whenever the driver dies."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.settings.base import OutputSettings
from jobs.storage import folders, versions
from jobs.storage.folders import ResultFolder, whole_folder
from tests.results import plain_files
from tests.storage.faults import KilledError
from udfs.stores import objects

OLD = {"config.yaml": b"old", "gone.csv": b"old", "rows.parquet/part-1": b"old"}
NEW = {"config.yaml": b"new", "more.csv": b"new", "rows.parquet/part-2": b"new"}


class Disk:
    """Dies before one of the steps that change a disk, and stays dead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps, self.dies_before = 0, -1
        for owner, name in (
            (ResultFolder, "write_bytes"),
            (objects, "_put_file"),
            (versions, "_replace_link"),
            (folders, "delete_folder"),
            (Path, "unlink"),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name)))

    def _counted(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            if self.steps == self.dies_before:
                raise KilledError
            self.steps += 1
            return real(*args, **kwargs)

        return step

    def live(self, dies_before: int = -1) -> None:
        self.steps, self.dies_before = 0, dies_before


def write(path: Path, files: dict[str, bytes]) -> None:
    with whole_folder(OutputSettings(path=str(path), mode="overwrite")) as folder:
        for name, content in files.items():
            folder.write_bytes(name, content)


def seen(path: Path) -> dict[str, bytes]:
    """What people find, without names that lead nowhere."""
    return plain_files(path)


def test_a_driver_that_dies_at_any_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, dies_before, finished = Disk(monkeypatch), 0, False
    while not finished:
        path = tmp_path / f"out{dies_before}"
        disk.live()
        write(path, OLD)
        assert seen(path) == OLD
        disk.live(dies_before)
        try:
            write(path, NEW)
            finished = True
        except KilledError:
            disk.live()
            assert seen(path) in (OLD, NEW)
            write(path, NEW)
        assert seen(path) == NEW
        dies_before += 1
    assert dies_before > 8


def test_links_of_a_killed_writer_go_after_an_hour(tmp_path: Path) -> None:
    write(tmp_path, OLD)
    old, young = tmp_path / ".gone.csv.0123456789ab.tmp", tmp_path / "..current.ba9876543210.tmp"
    users = tmp_path / ".mine"
    for link, minutes in ((old, 61), (young, 59), (users, 61)):
        link.symlink_to(".current/gone.csv")
        then = time.time() - 60 * minutes
        os.utime(link, (then, then), follow_symlinks=False)
    write(tmp_path, NEW)
    assert [link.is_symlink() for link in (old, young, users)] == [False, True, True]
    assert seen(tmp_path) == NEW
