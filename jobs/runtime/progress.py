"""How far a long piece of work is, and how long it will still take."""

from __future__ import annotations

import time
from types import TracebackType

from jobs.runtime.log import duration_text, live_line, log_progress


class Progress:
    """Counts what is done. What was done by an earlier job takes no time and does not change the estimate.

    Within its `with` block, the line about it stays on the terminal and counts down between two reports.
    """

    def __init__(self, name: str, total: int, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._done = self._now_done = 0
        self._begin = self._reported = time.monotonic()
        self._live = live_line(self.line)

    def __enter__(self) -> Progress:
        self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.__exit__(kind, error, trace)

    def skip(self, count: int) -> None:
        """Count what was done before."""
        self._done += count

    def add(self, count: int) -> None:
        """Count what was done since the last call, and tell how far the work is, if it got any further."""
        if not count:
            return
        self._done += count
        self._now_done += count
        self._reported = time.monotonic()
        log_progress(self.line())

    @property
    def rate(self) -> float:
        """How much was done per second, by the last report; 0 before the first."""
        return self._now_done / max(self._reported - self._begin, 1e-9)

    def line(self) -> str:
        """How far the work is now."""
        return self.text(self._reported - self._begin, time.monotonic() - self._reported)

    def text(self, seconds: float, since: float = 0.0) -> str:
        """The line where what is done took so many seconds, and was reported so many seconds ago."""
        line = f"{self._name}: {self._done:,} of {self._total:,} {self._unit}"
        remaining = self._total - self._done
        if not remaining:
            return f"{line} in {duration_text(round(seconds))}"
        if not self._now_done:
            return f"{line}, {duration_text(round(seconds + since))} so far"
        left = max(1, round(seconds / self._now_done * remaining - since))
        return f"{line} ({100 * self._done / self._total:.0f}%), about {duration_text(left)} left"
