"""The lock of nightly runs: held by one, taken over from the dead, released in any case."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from fusion.errors import OutputError
from jobs.monitoring import lock as lock_module
from jobs.monitoring.lock import _birth, exclusive


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "work" / "nightly.lock"
    with exclusive(lock, "first"):
        assert json.loads(lock.read_text())["pid"] == os.getpid()
        with pytest.raises(OutputError, match=rf"run first \(process {os.getpid()} on .*\) is at work since 20"):
            exclusive(lock, "second").__enter__()
    assert not lock.exists()


def test_it_is_released_after_an_error(tmp_path: Path) -> None:
    lock = tmp_path / "nightly.lock"
    with pytest.raises(ZeroDivisionError), exclusive(lock, "first"):
        _ = 1 / 0
    assert not lock.exists()


def test_the_second_waits(tmp_path: Path) -> None:
    lock = tmp_path / "nightly.lock"
    order = []

    def first() -> None:
        with exclusive(lock, "first"):
            order.append("first")
            started.set()
            time.sleep(0.7)
            order.append("first is done")

    started = threading.Event()
    thread = threading.Thread(target=first)
    thread.start()
    started.wait()
    with exclusive(lock, "second", wait=30):
        order.append("second")
    thread.join()
    assert order == ["first", "first is done", "second"]


def test_the_dead_are_succeeded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = tmp_path / "nightly.lock"
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    holder = {
        "run_id": "old",
        "host": socket.gethostname(),
        "pid": int(dead.stdout),
        "birth": "1",
        "since": "yesterday",
    }
    lock.write_text(json.dumps(holder))
    with exclusive(lock, "new"):
        assert json.loads(lock.read_text())["run_id"] == "new"
    assert "run old is taken over" in capsys.readouterr().err
    # On another machine nobody can tell.
    lock.write_text(json.dumps({**holder, "host": "elsewhere"}))
    with pytest.raises(OutputError, match="on elsewhere"), exclusive(lock, "new"):
        pass
    assert lock.exists()


@pytest.mark.parametrize("kind", ["zombie", "number used again"])
def test_what_only_looks_alive_is_succeeded(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / "nightly.lock"
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    birth = _birth(process.pid)
    if kind == "zombie":
        process.kill()
        while _birth(process.pid):
            time.sleep(0.05)
    holder = {"run_id": "old", "host": socket.gethostname(), "pid": process.pid, "since": "yesterday"}
    lock.write_text(json.dumps({**holder, "birth": birth if kind == "zombie" else "1"}))
    with exclusive(lock, "new"):
        assert json.loads(lock.read_text())["run_id"] == "new"
    process.kill()
    process.wait()


def test_of_two_that_find_a_dead_lock_one_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One is slow to remove the dead holder's lock, and must not remove the one that the other has made meanwhile."""
    lock = tmp_path / "nightly.lock"
    holder = {"run_id": "old", "host": socket.gethostname(), "pid": 2**22 + 1, "birth": "1", "since": "yesterday"}
    lock.write_text(json.dumps(holder))
    looks, told = [], []
    removing = threading.Event()

    def look(path: Path) -> dict[str, object] | None:
        found = original(path)
        if threading.current_thread().name == "slow":
            looks.append(found)
            # The second look is the one before the removal.
            if len(looks) == 2:
                removing.set()
                time.sleep(1)
        return found

    def work() -> None:
        with exclusive(lock, "new", wait=30):
            told.append("in")
            time.sleep(1.5)
            told.append("out")

    original = lock_module._holder
    monkeypatch.setattr(lock_module, "_holder", look)
    slow, fast = threading.Thread(target=work, name="slow"), threading.Thread(target=work)
    slow.start()
    removing.wait(10)
    fast.start()
    slow.join()
    fast.join()
    assert told == ["in", "out", "in", "out"]
