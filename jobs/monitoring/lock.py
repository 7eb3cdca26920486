"""One nightly run at a time: a lock file that tells who holds it."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusion.errors import OutputError
from jobs.runtime.log import log

POLL_SECONDS = 0.5


@contextmanager
def exclusive(path: Path, run_id: str, wait: float = 0) -> Iterator[None]:
    """Hold the lock while the block runs. Another holder is waited for, then named in the refusal.

    A lock whose process is gone (on this machine) is taken over: its run was killed.
    """
    pid = os.getpid()
    mine = {"run_id": run_id, "host": socket.gethostname(), "pid": pid, "birth": _birth(pid), "since": _now()}
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + wait
    announced = False
    while not _taken(path, mine):
        holder = _holder(path)
        if holder is not None and _is_gone(holder):
            log(f"the lock of run {holder['run_id']} is taken over: its process {holder['pid']} is gone")
            _remove(path, holder)
        elif time.monotonic() >= until:
            who = f"run {holder['run_id']} (process {holder['pid']} on {holder['host']})" if holder else "another run"
            since = f" since {holder['since']}" if holder else ""
            raise OutputError(f"{who} is at work{since}; its lock is {path}. Wait for it: nightly.wait=SECONDS")
        else:
            if not announced and holder is not None:
                log(f"waiting for run {holder['run_id']} (process {holder['pid']} on {holder['host']})")
                announced = True
            time.sleep(POLL_SECONDS)
    try:
        yield
    finally:
        _remove(path, mine)


def _taken(path: Path, mine: dict[str, object]) -> bool:
    """Whether the lock is ours now: only one process can make the file."""
    try:
        file = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        return False
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        json.dump(mine, stream)
    return True


def _holder(path: Path) -> dict[str, object] | None:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return None


def _is_gone(holder: dict[str, object]) -> bool:
    """Whether the process is known to have ended. Process ids are used again; when one was born tells them apart."""
    return holder["host"] == socket.gethostname() and _birth(int(str(holder["pid"]))) not in (holder["birth"], None)


def _birth(pid: int) -> str | None:
    """When a process was born, as the system counts; empty if it has ended, None where the system does not tell."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    try:
        # The name of a process, in brackets, may hold anything. Its state follows, and 19 fields later its birth.
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return "" if state == "Z" else fields[18]


def _remove(path: Path, holder: dict[str, object]) -> None:
    """Remove a lock, if it is still that holder's. One at a time looks and removes: two that found the same dead
    holder would otherwise remove the lock that one of them has made meanwhile."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        if _holder(path) == holder:
            path.unlink()
    finally:
        os.close(folder)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
