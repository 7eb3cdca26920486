"""A disk that is really full: where the history is, or where the pages go."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fusion.errors import OutputError
from tests.nights import Site, good_texts


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A file system of its own, in memory, at a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """A file that leaves no room."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(bytes(4096))
    return filler


def test_no_room_for_the_history(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", good_texts(60))
    with small_disk(Path(site.place), "2m"):
        assert site.run("good").exit_code == 0
        filler = fill(Path(site.place))
        # Not even the lease can be taken: the night is refused before it begins, and nobody is locked out by that.
        assert site.verdicts() == [("good", "sample", "ok")]
        with pytest.raises(OutputError, match="cannot write to "):
            site.run("refused")
        # Room for the lease, but not for the tables.
        os.truncate(filler, filler.stat().st_size - 7 * 4096)
        night = site.run("full")
        assert night.exit_code == 13
        assert night.unrecorded is not None and "No space left" in night.unrecorded
        facts = json.loads((site.work / "nightly" / "full" / "summary.json").read_text())
        assert (facts["exit_code"], facts["recorded"]) == (13, False)
        assert site.verdicts() == [("good", "sample", "ok")]
        filler.unlink()
        night = site.run("room-again")
        assert (night.exit_code, night["sample"].against) == (0, "good")


def test_no_room_for_the_pages(tmp_path: Path) -> None:
    site = Site(tmp_path / "site", good_texts(60))
    site.run("good")
    site.degrade(1)
    with small_disk(site.work / "nightly", "64k"):
        fill(site.work / "nightly")
        night = site.run("bad")
    assert night.exit_code == 10
    assert any("No space left" in problem for problem in night.problems)
    assert site.verdicts()[-1] == ("bad", "sample", "regression")
