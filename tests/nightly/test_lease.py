"""The lease of a history: held by one, taken over from the dead, lost by the paused."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fusion.errors import OutputError
from jobs.nights.delta import LEASE_FILE, DeltaTables
from jobs.nights.history import History
from jobs.nights.lease import _birth, held_lease
from jobs.nights.tables import FencedError, Holder
from tests.nights import lease_numbers


@pytest.fixture
def storage(tmp_path: Path) -> DeltaTables:
    return DeltaTables(str(tmp_path / "history"))


def dead_process() -> int:
    done = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    return int(done.stdout)


def leave(storage: DeltaTables, **about: object) -> Holder:
    """A lease that somebody has taken and not given back."""
    last = storage.holder()
    number = 1 if last is None else last.number + 1
    holder = Holder(number, "old", socket.gethostname(), dead_process(), "1", "yesterday", time.time(), 300.0)
    holder = replace(holder, **about)  # type: ignore[arg-type]
    assert storage.take(holder)
    return holder


def test_one_holder_at_a_time(storage: DeltaTables, tmp_path: Path) -> None:
    with held_lease(storage, "first", 30) as lease:
        assert lease.number == 1
        other = DeltaTables(str(tmp_path / "history"))
        with pytest.raises(OutputError, match=r"night first \(process \d+ on .*\) has been running since 20"):
            held_lease(other, "second", 30).__enter__()
    with held_lease(storage, "second", 30) as lease:
        assert lease.number == 2


def test_it_is_released_after_an_error(storage: DeltaTables) -> None:
    with pytest.raises(ZeroDivisionError), held_lease(storage, "first", 30):
        _ = 1 / 0
    with held_lease(storage, "second", 30):
        pass


def test_the_second_waits(storage: DeltaTables, tmp_path: Path) -> None:
    order, started = [], threading.Event()

    def first() -> None:
        with held_lease(storage, "first", 30):
            order.append("first")
            started.set()
            time.sleep(0.7)
            order.append("first is done")

    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    with held_lease(DeltaTables(str(tmp_path / "history")), "second", 30, wait=30):
        order.append("second")
    thread.join()
    assert order == ["first", "first is done", "second"]


def test_the_dead_are_succeeded(storage: DeltaTables, capsys: pytest.CaptureFixture[str]) -> None:
    leave(storage)
    with held_lease(storage, "new", 30) as lease:
        assert lease.number == 2
    assert "night old is taken over" in capsys.readouterr().err


def test_the_dead_of_another_machine_are_succeeded_when_their_lease_has_run_out(storage: DeltaTables) -> None:
    leave(storage, host="elsewhere")
    with pytest.raises(OutputError, match=r"on elsewhere\) has been .*--break-lock old"), held_lease(storage, "n", 30):
        pass
    leave_again = replace(storage.holder(), beat=time.time() - 301)  # type: ignore[type-var]
    storage.beat(leave_again)
    with held_lease(storage, "new", 30) as lease:
        assert lease.number == 2


def test_a_lock_is_broken_by_its_name_only(storage: DeltaTables) -> None:
    leave(storage, host="elsewhere")
    with pytest.raises(OutputError, match="night old"), held_lease(storage, "new", 30, broken="another"):
        pass
    with held_lease(storage, "new", 30, broken="old"):
        pass


@pytest.mark.parametrize("content", ["", "{", "[]", '{"number": 1}'])
def test_a_full_disk_leaves_nobody_locked_out(storage: DeltaTables, tmp_path: Path, content: str) -> None:
    """The file of the lease was not written to its end: the commit says who took the lease."""
    leave(storage)
    (tmp_path / "history" / LEASE_FILE).write_text(content)
    with held_lease(storage, "new", 30) as lease:
        assert lease.number == 2
    holder = leave(storage, host="elsewhere", run_id="far")
    (tmp_path / "history" / LEASE_FILE).write_text(content)
    assert storage.holder() == holder
    with pytest.raises(OutputError, match="night far"), held_lease(storage, "new", 30):
        pass


@pytest.mark.parametrize("kind", ["zombie", "number used again"])
def test_what_only_looks_alive_is_succeeded(storage: DeltaTables, kind: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    birth = _birth(process.pid)
    if kind == "zombie":
        process.kill()
        while _birth(process.pid):
            time.sleep(0.05)
    leave(storage, pid=process.pid, birth=birth if kind == "zombie" else "1")
    with held_lease(storage, "new", 30) as lease:
        assert lease.number == 2
    process.kill()
    process.wait()


def test_of_many_that_find_a_dead_lease_one_has_it(storage: DeltaTables, tmp_path: Path) -> None:
    leave(storage)
    assert lease_numbers(lambda: DeltaTables(str(tmp_path / "history")), 5) == [2, 3, 4, 5, 6]


def test_the_lease_is_renewed_while_its_holder_is_at_work(storage: DeltaTables, tmp_path: Path) -> None:
    with held_lease(storage, "first", 0.6):
        first = json.loads((tmp_path / "history" / LEASE_FILE).read_text())["beat"]
        time.sleep(1.0)
        assert json.loads((tmp_path / "history" / LEASE_FILE).read_text())["beat"] > first + 0.6


def test_a_paused_holder_is_fenced(tmp_path: Path) -> None:
    """Paused longer than its lease, then awake again: whatever it writes no longer counts."""
    place = str(tmp_path / "history")
    slow, fast = History(place), History(place)
    row = {"dataset": "d", "verdict": "ok", "figures": True, "evaluated": True, "finished": "x"}
    with held_lease(slow.storage, "slow", 3600) as lost:
        storage = fast.storage
        # As if the holder, on another machine, had been silent.
        silent = replace(storage.holder(), host="elsewhere", beat=time.time() - 7200)  # type: ignore[type-var]
        storage.beat(silent)
        with held_lease(storage, "fast", 30) as lease:
            fast.commit([{**row, "run_id": "fast", "attempt": lease.number, "started": "2"}])
            with pytest.raises(FencedError, match=r"night fast \(process \d+ on .*\) has taken the history"):
                slow.commit([{**row, "run_id": "slow", "attempt": lost.number, "started": "1"}])
            with pytest.raises(FencedError):
                slow.storage.beat(lost.holder)
            with pytest.raises(FencedError):
                slow.forget(["fast"], lost.number)
    assert [found["run_id"] for found in History(place).runs()] == ["fast"]
    assert storage.holder().number == 2  # type: ignore[union-attr]


def test_a_history_out_of_a_backup_has_a_lease_again(tmp_path: Path) -> None:
    """The file of the lease is newer than the tables: the next number follows the larger one."""
    place = tmp_path / "history"
    storage = DeltaTables(str(place))
    for run_id in ("1", "2", "3"):
        with held_lease(storage, run_id, 30):
            if run_id == "1":
                shutil.copytree(place / "runs", tmp_path / "backup")
    shutil.rmtree(place / "runs")
    (tmp_path / "backup").rename(place / "runs")
    with held_lease(storage, "4", 30) as lease:
        assert lease.number == 4


def test_a_history_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    place = tmp_path / "history"
    with held_lease(DeltaTables(str(place)), "1", 30):
        pass
    for entry in (place / "runs" / "_delta_log").iterdir():
        entry.write_text("no JSON")
    with pytest.raises(OutputError, match="cannot read the table runs of the history"):
        History(str(place)).runs()
