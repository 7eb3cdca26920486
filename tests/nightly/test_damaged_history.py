"""A history that was damaged from outside: each message names the file and says what to do, and nothing is taken over
in silence."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from fusion.errors import OutputError
from jobs.cli import main
from jobs.nights.delta import LEASE_FILE, DeltaTables
from jobs.nights.history import History
from jobs.nights.lease import held_lease


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A history with one night, whose lease was given back."""
    history = History(str(tmp_path / "history"))
    with held_lease(history.storage, "good", 30) as lease:
        row = {"run_id": "good", "dataset": "sample", "attempt": lease.number, "verdict": "ok", "figures": True}
        history.commit([{**row, "started": "1", "finished": "2", "evaluated": True}])
    history.decide("pin", "good", None, None, "words")
    return tmp_path / "history"


def damaged(content: bytes, **values: object) -> bytes:
    return json.dumps({**json.loads(content), **values}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: b"[" * 100_000,
        lambda content: b"\xff\xfe",
        lambda content: damaged(content, number="1"),
        lambda content: damaged(content, beat="now"),
        lambda content: damaged(content, beat=5.0, seconds=None),
    ],
    ids=["cut", "empty", "deep", "bytes", "number", "beat", "seconds"],
)
def test_a_damaged_lease_file_does_not_count(place: Path, damage) -> None:
    """The log of the table `runs` says who took the lease, too."""
    path = place / LEASE_FILE
    path.write_bytes(damage(path.read_bytes()))
    holder = DeltaTables(str(place)).holder()
    assert holder is not None and (holder.run_id, holder.number) == ("good", 1)
    with held_lease(DeltaTables(str(place)), "next", 30, broken="good") as lease:
        assert lease.number == 2


@pytest.mark.parametrize("kept", ["decisions", LEASE_FILE])
def test_a_history_whose_runs_are_gone_says_so(
    place: Path, kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in place.iterdir():
        if path.name != kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(OutputError, match=rf"has lost its table runs, .* still has {kept}\. Restore {place}/runs"):
        held_lease(DeltaTables(str(place)), "next", 30).__enter__()
    assert main(["nightly", "status", "--work", str(tmp_path)]) == 4
    assert "has lost its table runs" in capsys.readouterr().err


@pytest.mark.parametrize("pattern", ["*.parquet", "_delta_log/*1.json"])
def test_a_damaged_table_is_named(place: Path, pattern: str) -> None:
    for path in (place / "runs").glob(pattern):
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(
        OutputError, match=f"cannot read the table runs of the history {place}: .*from a backup"
    ) as told:
        History(str(place)).runs()
    assert "\n" not in str(told.value)


def test_a_forked_process_is_told_to_spawn(place: Path) -> None:
    assert History(str(place)).runs()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            History(str(place)).runs()
            words = "no error"
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
        os.write(write, words.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as told:
        words = told.read()
    os.waitpid(child, 0)
    assert words.startswith("SetupError: this process was forked") and "'spawn'" in words
