"""One nightly run at a time: a lock file that tells who holds it."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fusion.errors import OutputError
from jobs.stages import log

POLL_SECONDS = 0.5


@contextmanager
def exclusive(path: Path, run_id: str, wait: float = 0) -> Iterator[None]:
    """Hold the lock while the block runs. Another holder is waited for, then named in the refusal.

    A lock whose process is gone (on this machine) is taken over: its run was killed.
    """
    mine = {"run_id": run_id, "host": socket.gethostname(), "pid": os.getpid(), "since": _now()}
    path.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + wait
    told = False
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
            if not told and holder is not None:
                log(f"waiting for run {holder['run_id']} (process {holder['pid']} on {holder['host']})")
                told = True
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
    if holder["host"] != socket.gethostname():
        return False
    try:
        os.kill(int(str(holder["pid"])), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


def _remove(path: Path, holder: dict[str, object]) -> None:
    """Remove a lock, if it is still that holder's."""
    if _holder(path) == holder:
        path.unlink(missing_ok=True)


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
