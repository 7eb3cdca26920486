"""The memory of processes: of Spark's Python workers while a job runs, and of any one, now and at its peak."""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TypeVar

Watched = TypeVar("Watched", bound="_Memory")


class _Memory(ABC):
    """Looks at processes every few moments inside the block."""

    def __init__(self, seconds: float) -> None:
        self.peak = 0
        self._seconds = seconds
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self: Watched) -> Watched:
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._done.wait(self._seconds):
            self.look()

    @abstractmethod
    def look(self) -> None: ...


class WorkerMemory(_Memory):
    """How much Python workers of Spark hold inside the block, in bytes; `peak` is that of the largest one."""

    def __init__(self) -> None:
        super().__init__(0.1)
        self.growth = 0
        """The most that any worker holds beyond what it held when it was first seen."""
        self._first: dict[int, int] = {}

    def look(self) -> None:
        for worker in filter(_is_worker, _tree(os.getpid())):
            size = resident_bytes(worker)
            self.peak = max(self.peak, size)
            self.growth = max(self.growth, size - self._first.setdefault(worker, size))


class TreeMemory(_Memory):
    """What a process and all that it has started hold together inside the block, in bytes."""

    def __init__(self, process: int) -> None:
        super().__init__(0.2)
        self._process = process

    def look(self) -> None:
        self.peak = max(self.peak, sum(map(resident_bytes, _tree(self._process))))


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


def _is_worker(process: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


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
