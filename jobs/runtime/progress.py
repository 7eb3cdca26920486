"""How far a long piece of work is, and how long it will still take."""

from __future__ import annotations

import time

from jobs.runtime.log import duration_text, log_progress


class Progress:
    """Counts what is done. What was done by an earlier run takes no time and does not change the estimate."""

    def __init__(self, name: str, total: int, unit: str) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._done = self._now_done = 0
        self._begin = time.monotonic()

    def skip(self, count: int) -> None:
        """Count what was done before."""
        self._done += count

    def add(self, count: int) -> None:
        """Count what was done since the last call, and tell how far the work is."""
        self._done += count
        self._now_done += count
        log_progress(self.text(time.monotonic() - self._begin))

    def text(self, seconds: float) -> str:
        """The line after so many seconds."""
        line = f"{self._name}: {self._done:,} of {self._total:,} {self._unit}"
        left = self._total - self._done
        if not left:
            return f"{line} in {duration_text(seconds)}"
        share = 100 * self._done / max(self._total, 1)
        return f"{line} ({share:.0f}%), about {duration_text(seconds / max(self._now_done, 1) * left)} left"
