"""What a job says about its work."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jobs.runtime.folders import folder_size


@contextmanager
def stage_line(name: str, path: str | None) -> Iterator[dict[str, Any]]:
    """A line in the log when the block is done: how long it took, the size of what it wrote, and the counts it adds."""
    begin = time.monotonic()
    counts: dict[str, Any] = {}
    yield counts
    size = {} if path is None else {"bytes": folder_size(path)}
    log_line(stage=name, seconds=round(time.monotonic() - begin, 1), **size, **counts)


def log(message: str) -> None:
    """A line about the work, beside the results on standard output."""
    print(f"[xmtc-fusion] {message}", file=sys.stderr, flush=True)


def log_line(**fields: Any) -> None:
    """A line of key=value pairs, one a finished stage, for people and for programs that read logs."""
    words = (f"{key.replace(' ', '_')}={_word(value)}" for key, value in {**_context, **fields}.items())
    log(" ".join(words))
    record(fields)


def _word(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text


_context: dict[str, Any] = {}


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Fields that every line of the block begins with, such as the run and the dataset."""
    before = dict(_context)
    _context.update(fields)
    try:
        yield
    finally:
        _context.clear()
        _context.update(before)


_records: list[list[dict[str, Any]]] = []


@contextmanager
def recorded() -> Iterator[list[dict[str, Any]]]:
    """What the lines of the block say, for those who want it as data; stages that were skipped included."""
    lines: list[dict[str, Any]] = []
    _records.append(lines)
    try:
        yield lines
    finally:
        _records.pop()


def record(fields: dict[str, Any]) -> None:
    for lines in _records:
        lines.append(fields)
