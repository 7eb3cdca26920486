"""Ctrl-C and SIGTERM: the command unwinds, gives back what it holds, and ends with one line."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM


class Terminated(KeyboardInterrupt):
    """Raised in the main thread by SIGTERM, which otherwise ends Python without unwinding anything."""


def exit_code(error: KeyboardInterrupt) -> int:
    return TERMINATED if isinstance(error, Terminated) else INTERRUPTED


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block, SIGTERM unwinds as Ctrl-C does, and libraries do not print where they were interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        # Who sends a second one means it.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    root = logging.getLogger()
    # py4j logs the stack of an interrupted call, with a handler that logging makes where there is none.
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.addFilter(_of_no_interrupt)
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)
        signal.signal(signal.SIGTERM, before)


def _of_no_interrupt(record: logging.LogRecord) -> bool:
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, KeyboardInterrupt)
