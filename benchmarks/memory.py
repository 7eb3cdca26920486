"""The memory of processes: of Spark's Python workers while a job runs, and of any one, now and at its peak."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType


class WorkerMemory:
    """How much Python workers of Spark hold inside the block, in bytes."""

    def __init__(self, seconds: float = 0.1) -> None:
        self.peak = 0
        """The largest resident size of any worker."""
        self.growth = 0
        """The most that any worker holds beyond what it held when it was first seen."""
        self._first: dict[Path, int] = {}
        self._seconds = seconds
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            for worker in _workers():
                size = resident_bytes(worker.name)
                self.peak = max(self.peak, size)
                self.growth = max(self.growth, size - self._first.setdefault(worker, size))


class TreeMemory:
    """What a process and all that it has started hold together inside the block, in bytes."""

    def __init__(self, process: int, seconds: float = 0.2) -> None:
        self.peak = 0
        self._process = process
        self._seconds = seconds
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> TreeMemory:
        self._watcher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            self.peak = max(self.peak, sum(resident_bytes(process) for process in _tree(self._process)))


def _tree(root: int) -> list[int]:
    """A process and those below it."""
    below: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        below.setdefault(parent, []).append(int(stat.parent.name))
    tree = [root]
    for process in tree:
        tree += below.get(process, [])
    return tree


def _workers() -> list[Path]:
    """The Python workers that descend from this process."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (process / "cmdline").read_bytes() and _descends(process):
                found.append(process)
        except OSError:
            continue
    return found


def _descends(process: Path) -> bool:
    number = int(process.name)
    while number > 1 and number != os.getpid():
        stat = Path(f"/proc/{number}/stat").read_text()
        number = int(stat.rpartition(")")[2].split()[1])
    return number == os.getpid()


def resident_bytes(process: str | int = "self", at_peak: bool = False) -> int:
    """The resident size of a process, or its peak since it started or since `forget_peak`; 0 if it has ended."""
    field = "VmHWM:" if at_peak else "VmRSS:"
    try:
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def forget_peak() -> None:
    """Let the peak of this process begin at its present size."""
    Path("/proc/self/clear_refs").write_text("5")
