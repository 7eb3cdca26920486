"""What jobs say about their work: for people on the terminal, as key=value lines for programs.

Everything goes through the logger `xmtc_fusion` of Python's logging. A record has a sentence as its message and may
carry `fields`, the same as data. The command sends them to the terminal and to a file (`configure_log`); a program that
imports a job decides for itself.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TextIO

from fusion.errors import OutputError, visible
from jobs.settings.sections import LogSettings

LOGGER = logging.getLogger("xmtc_fusion")
SOON = 5.0
"""Seconds of work before a report of progress is worth a line of its own."""
EVERY = 30.0
"""Seconds between two lines about progress where lines cannot be rewritten: in a log, or in a pipe."""
CLEAR_LINE = "\r\x1b[K"
ROUNDING = 1e-6
"""By how much the sum of many small parts may miss a whole number."""


class Terminal(logging.Handler):
    """Standard error. Progress rewrites one line there if it is a terminal; else only some of its lines are shown."""

    _unfinished = False
    _last_progress = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        # Looked up every time: notebooks and tests put something else in its place.
        stream: TextIO = sys.stderr
        text = visible(self.format(record), lines=record.exc_info is not None)
        progress = getattr(record, "progress", False)
        rewritable = stream.isatty()
        if progress and not rewritable:
            now = time.monotonic()
            if now - self._last_progress < EVERY and not getattr(record, "always", False):
                return
            self._last_progress = now
        begin = CLEAR_LINE if self._unfinished else ""
        self._unfinished = progress and rewritable
        stream.write(f"{begin}{text}{'' if self._unfinished else chr(10)}")
        stream.flush()


class KeyValueFormatter(logging.Formatter):
    """`time=... level=info run=... stage=prepare seconds=12.1 texts=9812`; what has no fields has a message."""

    def format(self, record: logging.LogRecord) -> str:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(record.created))
        fields = getattr(record, "fields", None) or {"message": record.getMessage()}
        every = {"time": when, "level": record.levelname.lower(), **_context, **fields}
        return " ".join(f"{visible(key).replace(' ', '_')}={_word(value)}" for key, value in every.items())


def _word(value: Any) -> str:
    text = json.dumps(value, sort_keys=True) if isinstance(value, Mapping | list | tuple) else visible(str(value))
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text


def configure_log(settings: LogSettings) -> None:
    """Send what jobs say where the settings want it. Handlers that others have added stay."""
    for handler in [handler for handler in LOGGER.handlers if handler.get_name() == LOGGER.name]:
        LOGGER.removeHandler(handler)
        handler.close()
    terminal = Terminal(logging.INFO if settings.format == "text" else logging.DEBUG)
    terminal.setFormatter(KeyValueFormatter() if settings.format == "keyvalue" else None)
    handlers: list[logging.Handler] = [terminal]
    if settings.file is not None:
        handlers.append(_file_handler(settings.file))
    for handler in handlers:
        handler.set_name(LOGGER.name)
        LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    # A program that logs on its own would print every line a second time.
    LOGGER.propagate = False


def _file_handler(path: str) -> logging.Handler:
    try:
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"log.file: cannot write to {path}: {error}") from None
    handler.setFormatter(KeyValueFormatter())
    # Lines about progress are for people who wait.
    handler.addFilter(lambda record: not getattr(record, "progress", False))
    return handler


def log(message: str) -> None:
    """A sentence about the work."""
    LOGGER.info(message)


def log_fields(message: str, level: int = logging.INFO, **fields: Any) -> None:
    """A sentence for people, and the same as data for programs that read logs."""
    LOGGER.log(level, message, extra={"fields": fields})
    for lines in _records:
        lines.append(fields)


def log_progress(message: str, always: bool = False) -> None:
    """How far the work is. Where lines cannot be rewritten, only some are shown, unless `always` is said."""
    LOGGER.info(message, extra={"progress": True, "always": always})


def counts_text(counts: Mapping[str, Any]) -> str:
    """Counts as words: `9,812 texts, 435 labels, search exact`. Zeros are left out: they are no news."""
    words = []
    for key, value in counts.items():
        name = key.replace("_", " ")
        if isinstance(value, Mapping):
            same = len(set(value.values())) == 1
            each = [f"{inner} {about}" for inner, about in value.items()]
            words.append(f"{name} {next(iter(value.values())) if same else ' and '.join(each)}")
        elif isinstance(value, int):
            words += [f"{value:,} {name if value != 1 else _singular(name)}"] if value else []
        else:
            words.append(f"{name} {value}")
    return ", ".join(words) or "done"


def _singular(name: str) -> str:
    """`text without candidates` for `texts without candidates`, `head label` for `head labels`."""
    return re.sub(r"s\b", "", name, count=1)


def duration_text(seconds: float) -> str:
    """`0.4 s`, `12 s`, `3 min`, `1 h 20 min`; whole numbers without a decimal."""
    if seconds < 10 and isinstance(seconds, float):
        return f"{seconds:.1f} s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


_at_work: list[str] = []
_live: list[Progress] = []
_elsewhere: list[_Elsewhere] = []


@contextmanager
def heartbeat(name: str) -> Iterator[None]:
    """Say now and then that a stage is at work, so that silence means that something is wrong."""
    begin, done = time.monotonic(), threading.Event()
    _at_work.append(name)

    def beat() -> None:
        rewritable, spoken = sys.stderr.isatty(), begin
        # What works elsewhere is looked at more often than it is spoken of.
        while not done.wait(min(1.0, EVERY)):
            # Of stages within stages the innermost speaks.
            if _at_work[-1:] != [name]:
                continue
            line, share = _line(name, begin)
            now = time.monotonic()
            due = now - spoken >= (SOON if share and spoken == begin else EVERY)
            if (rewritable or due) and not done.is_set():
                spoken = now
                log_progress(line, always=not rewritable)

    thread = threading.Thread(target=beat, name=f"heartbeat of {name}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        # A cluster that does not answer the question how far it is must not keep the stage from ending.
        thread.join(SOON)
        _at_work.remove(name)


def _line(name: str, begin: float) -> tuple[str, bool]:
    """What the stage says now, and whether that is a share of work that is done elsewhere."""
    # Slices, since the stage goes on meanwhile, and may end what is asked here.
    live, elsewhere = next(iter(_live[-1:]), None), next(iter(_elsewhere[-1:]), None)
    if live is not None:
        # Of work that is done elsewhere nobody counts anything here.
        if live.rate or elsewhere is None:
            return live.line(), False
        name, begin = live.name, live.begin
    progress = elsewhere.progress(name) if elsewhere is not None else None
    if progress is not None:
        return progress.line(), progress.rate > 0
    return f"{name}: at work for {duration_text(round(time.monotonic() - begin))}", False


class Tasks(NamedTuple):
    """How far another is with work that it does for this process."""

    of: str
    """Whose tasks they are, such as those of `Spark stage 12`. Under another name, counting begins anew."""
    done: int
    total: int
    began: float
    """When the first of them began, by `time.monotonic`."""


@contextmanager
def work_elsewhere(look: Callable[[], Tasks | None]) -> Iterator[None]:
    """Within the block, another does the work, and stages say how far it is: what `look` finds every second. None: it
    does not say."""
    elsewhere = _Elsewhere(look)
    _elsewhere.append(elsewhere)
    try:
        yield
    finally:
        _elsewhere.remove(elsewhere)


_context: dict[str, Any] = {}


@contextmanager
def log_context(**fields: Any) -> Iterator[None]:
    """Fields that every key=value line of the block begins with, such as the run and the dataset."""
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
    """The fields of all lines of the block, for those who want them as data; stages that were skipped included."""
    lines: list[dict[str, Any]] = []
    _records.append(lines)
    try:
        yield lines
    finally:
        _records.pop()


class Progress:
    """Counts what is done, and says how far the work is: its share, and the time left.

        with Progress("bm25", texts, "texts scored") as progress:
            for some in slices:
                ...
                progress.add(len(some))

    Call `add` as often as you like: a terminal has one line that moves and counts down between two calls, a log gets a
    line every half minute. What an earlier job has done (`skip`) takes no time and does not change the estimate.
    """

    def __init__(self, name: str, total: int, unit: str, begin: float | None = None) -> None:
        self.name = name
        self._total, self._unit = total, unit
        self._done = self._now_done = 0.0
        self._adding = threading.Lock()
        self.begin = self._reported = time.monotonic() if begin is None else begin

    def __enter__(self) -> Progress:
        _live.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _live.remove(self)

    def skip(self, count: int) -> None:
        """Count what was done before."""
        self._done += count

    def add(self, count: float) -> None:
        """Count what was done since the last call, and report how far the work is, if it got any further. Threads may
        call it, and say parts of one."""
        if not count:
            return
        with self._adding:
            self._count(count)
            line = self.line()
        if self._reported - self.begin > SOON:
            log_progress(line)

    def reach(self, done: int) -> None:
        """Count up to a number, and never back, without a report."""
        if done > self._done:
            self._count(done - self._done)

    def _count(self, count: float) -> None:
        self._done += count
        self._now_done += count
        self._reported = time.monotonic()

    @property
    def rate(self) -> float:
        """How much was done per second, by the last report; 0 before the first."""
        return self._now_done / max(self._reported - self.begin, 1e-9)

    def line(self) -> str:
        """How far the work is now."""
        return self.text(self._reported - self.begin, time.monotonic() - self._reported)

    def text(self, seconds: float, since: float = 0.0) -> str:
        """The line after `seconds` of reported work, `since` seconds after the last report."""
        remaining = self._total - self._done
        finished = remaining < ROUNDING
        line = f"{self.name}: {int(self._done + ROUNDING):,} of {self._total:,} {self._unit}"
        if finished:
            return f"{line} in {duration_text(round(seconds))}"
        if not self._now_done:
            return f"{line}, {duration_text(round(seconds + since))} so far"
        left = max(1, round(seconds / self._now_done * remaining - since))
        return f"{line} ({100 * self._done / self._total:.0f}%), about {duration_text(left)} left"


class _Elsewhere:
    """What is said of work that another does. Each of its claims has a number of tasks that does not change."""

    def __init__(self, look: Callable[[], Tasks | None]) -> None:
        self._look = look
        self._claim: tuple[str, str, int] | None = None

    def progress(self, name: str) -> Progress | None:
        """How far it is now, None if it does not say."""
        tasks = self._look()
        if tasks is None:
            return None
        claim = (name, tasks.of, tasks.total)
        if claim != self._claim:
            self._claim = claim
            self._progress = Progress(f"{name}, {tasks.of}", tasks.total, "tasks", tasks.began)
        self._progress.reach(tasks.done)
        return self._progress


@contextmanager
def stage_progress(total: int, unit: str) -> Iterator[Callable[[float], object] | None]:
    """What counts how far the current stage is; nothing where the job says it itself."""
    if _live or not _at_work:
        yield None
        return
    with Progress(_at_work[-1], total, unit) as progress:
        yield progress.add
