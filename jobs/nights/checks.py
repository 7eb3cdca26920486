"""Checks of a night: of its data, and of what it costs, which the log of its stages has.

That is the time, the memory and Spark's metrics of each dataset.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import unknown_name
from jobs.engines.choose import choose_engine
from jobs.inputs.labels import judged_texts, label_texts_of
from jobs.inputs.lists import rows_of_runs
from jobs.inputs.sources import Sources, source_format
from jobs.inputs.tables import InputTables
from jobs.settings.config import Config
from jobs.settings.nightly import (
    AGE,
    EMPTY,
    GONE,
    LABELS,
    LISTS,
    NEW,
    PAIRS,
    TEXTS,
    UNLABELLED,
    CheckSettings,
    CostSettings,
)
from jobs.storage.versions import resolve
from udfs.judged import run_counts
from udfs.stores.addresses import local_folder, locate
from udfs.stores.objects import AT_HAND, files_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


STATED, AGAINST = "stated bounds", "baseline"
"""What a check compares with."""
WORDS = {
    TEXTS: "judged texts",
    LABELS: "labels",
    PAIRS: "pairs of text and label",
    UNLABELLED: "share of judged texts without a label",
    GONE: "share of the baseline's texts that are gone",
    NEW: "share of texts that the baseline had not",
    LISTS: "texts with candidates of {}",
    EMPTY: "share of rows of {} without a label or score",
    AGE: "hours since {} was written",
    "seconds": "seconds that the dataset took",
    "peak_memory": "bytes of memory that the dataset took at most",
}


@dataclass(frozen=True)
class InputCounts:
    """What was counted about the inputs of a dataset."""

    quantities: dict[str, float]
    """By key: `texts`, `lists:bm25` and so on."""
    judged: pa.Table
    """The judged texts, each with a digest of its labels."""


class Check(NamedTuple):
    """A quantity, what it was compared with, and whether it is within bounds; None: no bound on that side."""

    quantity: str
    rule: str
    value: float
    before: float | None
    low: float | None
    high: float | None

    @property
    def alarm(self) -> bool:
        below = self.low is not None and self.value < self.low
        return below or (self.high is not None and self.value > self.high)

    def as_row(self) -> dict[str, Any]:
        """A row of the table `checks`."""
        return {**self._asdict(), "alarm": self.alarm}

    def __str__(self) -> str:
        """As people read it."""
        bounds = [f"at least {_number(self.low)}"] if self.low is not None else []
        bounds += [f"at most {_number(self.high)}"] if self.high is not None else []
        was = f", {_number(self.before)} in the baseline" if self.before is not None else ""
        return f"{in_words(self.quantity)}: {_number(self.value)}{was}; allowed: {' and '.join(bounds) or 'anything'}"


def in_words(quantity: str) -> str:
    """A quantity as people read it."""
    kind, _, name = quantity.partition(":")
    return WORDS[kind].format(name)


def count_inputs(spark: SparkSession | None, config: Config) -> InputCounts:
    """Count what is to be evaluated, in this process where that can read it."""
    sources = Sources.of(config.inputs)
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    engine, judgements = tables.engine, tables.judgements
    assert judgements is not None
    relevant_from = config.evaluate.relevant_from
    judged = engine.collect(judged_texts(tables, relevant_from))
    labels = label_texts_of(tables, judgements, relevant_from).frequencies
    unlabelled = pc.sum(pc.equal(judged["labels"], 0)).as_py()
    quantities = _about_judgements(len(judged), len(labels.ids), int(labels.counts.sum()), unlabelled)
    for name, rows in rows_of_runs(tables).items():
        counted = engine.collect(engine.group(rows, ["text_id"], run_counts()))
        texts, number, without = (sum(counted[column].to_pylist()) for column in counted.column_names)
        quantities[f"{LISTS}:{name}"] = float(texts)
        quantities[f"{EMPTY}:{name}"] = without / max(number, 1)
    return InputCounts({**quantities, **_ages(sources)}, judged.select(["text_id", "judgement"]))


def _about_judgements(texts: int, labels: int, pairs: int, without: int | None) -> dict[str, float]:
    share = (without or 0) / max(texts, 1)
    return {TEXTS: float(texts), LABELS: float(labels), PAIRS: float(pairs), UNLABELLED: share}


def _ages(sources: Sources) -> dict[str, float]:
    """How old each input is, in hours: the newest file of each, where files tell."""
    candidates = sources.candidates if isinstance(sources.candidates, Mapping) else {"candidates": sources.candidates}
    ages = {}
    for name, source in {**candidates, "judgements": sources.judgements}.items():
        if not isinstance(source, str):
            continue
        kind, path = source_format(source)
        files = files_below(resolve(path)) if kind != "table" and locate(path).kind in AT_HAND else []
        if files:
            ages[f"{AGE}:{name}"] = (time.time() - max(file.modified for file in files)) / 3600
    return ages


def checks(
    counted: InputCounts, before: Mapping[str, float] | None, judged_before: pa.Table | None, settings: CheckSettings
) -> list[Check]:
    """Every bound that was stated, and every bound that follows from the baseline's quantities and texts."""
    quantities = dict(counted.quantities)
    if judged_before is not None:
        quantities |= _exchanged(judged_before, counted.judged)
    made = [
        Check(name, STATED, value, None, *_stated(name, settings))
        for name, value in quantities.items()
        if _stated(name, settings) != (None, None)
    ]
    for name, value in quantities.items():
        made += _against_baseline(name, value, before, settings)
    for name in sorted((before or {}).keys() - quantities.keys()):
        # A retriever that is gone has no lists any more.
        if name.startswith(f"{LISTS}:"):
            made += _against_baseline(name, 0.0, before, settings)
    return made


def idle_bounds(counted: InputCounts, settings: CheckSettings) -> list[str]:
    """Stated bounds that none of the quantities has, a sentence each. What compares with a baseline needs one."""
    kinds = {name.partition(":")[0] for name in counted.quantities} | {GONE, NEW}
    known = sorted({*kinds, *counted.quantities})
    idle = [
        f"nightly.checks.bounds: {unknown_name('quantity', name, known)}"
        for name in settings.bounds
        if name not in known
    ]
    if settings.oldest is not None and AGE not in kinds:
        idle.append("nightly.checks.oldest: no input tells when it was written")
    return idle


def _exchanged(before: pa.Table, tonight: pa.Table) -> dict[str, float]:
    ids, known = tonight["text_id"], before["text_id"]
    common = pc.sum(pc.is_in(ids, value_set=known.combine_chunks())).as_py() or 0
    return {GONE: 1 - common / max(len(known), 1), NEW: 1 - common / max(len(ids), 1)}


def _stated(name: str, settings: CheckSettings) -> tuple[float | None, float | None]:
    kind = name.partition(":")[0]
    low, high = settings.bounds.get(name, settings.bounds.get(kind, (None, None)))
    if kind == AGE and high is None:
        high = settings.oldest
    return low, high


def _against_baseline(
    name: str, value: float, before: Mapping[str, float] | None, settings: CheckSettings
) -> Iterable[Check]:
    """Counts may change by a share of what they were, shares by a difference."""
    kind = name.partition(":")[0]
    if kind in (GONE, NEW):
        allowed = settings.gone_texts if kind == GONE else settings.new_texts
        return [] if allowed is None else [Check(name, AGAINST, value, None, None, allowed)]
    was = (before or {}).get(name)
    allowed = {TEXTS: settings.texts, LABELS: settings.labels, PAIRS: settings.pairs, LISTS: settings.lists}.get(kind)
    if was is None or kind == AGE:
        return []
    if kind in (UNLABELLED, EMPTY):
        return [] if settings.nulls is None else [Check(name, AGAINST, value, was, None, was + settings.nulls)]
    if allowed is None:
        return []
    return [Check(name, AGAINST, value, was, was * (1 - allowed), was * (1 + allowed))]


def check_rows(made: Iterable[Check], counted: InputCounts) -> list[dict[str, Any]]:
    """The table `checks`: every quantity as it was counted, and every check of it."""
    plain = [
        {"quantity": name, "rule": None, "value": value, "alarm": False} for name, value in counted.quantities.items()
    ]
    return [*plain, *(check.as_row() for check in made)]


def counted_before(rows: pa.Table | None) -> dict[str, float] | None:
    """The quantities of an earlier night, out of the table `checks`."""
    if rows is None:
        return None
    return {row["quantity"]: row["value"] for row in rows.to_pylist() if row["rule"] is None}


def _number(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


METRICS = {
    "spark_run_milliseconds": ("Executor Run Time",),
    "spark_cpu_nanoseconds": ("Executor CPU Time",),
    "spark_gc_milliseconds": ("JVM GC Time",),
    "spark_read_bytes": ("Input Metrics", "Bytes Read"),
    "spark_written_bytes": ("Output Metrics", "Bytes Written"),
    "spark_shuffle_bytes": ("Shuffle Write Metrics", "Shuffle Bytes Written"),
    "spark_spilled_bytes": ("Disk Bytes Spilled",),
}


def spark_metrics(begin: float, end: float) -> dict[str, int]:
    """Sums over the tasks that ended between two times; empty without a session that keeps an event log here."""
    # A night in this process does not import Spark to learn that it has no session.
    spark = sys.modules.get("pyspark.sql")
    session = None if spark is None else spark.SparkSession.getActiveSession()
    if session is None or session.conf.get("spark.eventLog.enabled", "false") != "true":
        return {}
    folder = local_folder(session.conf.get("spark.eventLog.dir", "/tmp/spark-events") or "")
    name = session.conf.get("spark.app.id", "") or ""
    if folder is None or not name:
        return {}
    return task_sums(sorted(path for path in folder.rglob(f"*{name}*") if path.is_file()), begin, end)


def task_sums(files: list[Path], begin: float, end: float) -> dict[str, int]:
    """The same out of files of one application."""
    sums = {"spark_tasks": 0, "spark_failed_tasks": 0, **dict.fromkeys(METRICS, 0)}
    for event in (event for file in files for event in _events(file)):
        if event.get("Event") != "SparkListenerTaskEnd":
            continue
        about = event.get("Task Info", {})
        if not begin * 1000 <= about.get("Finish Time", 0) <= end * 1000:
            continue
        sums["spark_tasks"] += 1
        sums["spark_failed_tasks"] += int(bool(about.get("Failed")))
        for name, path in METRICS.items():
            value: Any = event.get("Task Metrics") or {}
            for step in path:
                value = value.get(step, 0) if isinstance(value, dict) else 0
            sums[name] += int(value)
    return sums


def _events(file: Path) -> Iterator[dict[str, Any]]:
    """The events of a file that may still be written: what is not whole at its end is left out."""
    codec = {".zstd": "zstd", ".lz4": "lz4", ".gz": "gzip"}.get(file.suffixes[-1] if file.suffixes else "")
    try:
        stream = pa.OSFile(str(file))
        whole = pa.CompressedInputStream(stream, codec) if codec else stream
        left = b""
        while block := whole.read(1 << 20):
            *lines, left = (left + block).split(b"\n")
            for line in lines:
                yield json.loads(line)
    except (OSError, ValueError, pa.ArrowException):
        return


DATASET = "dataset"
"""The line about all stages of a dataset together."""
SECONDS, MEMORY = "seconds", "peak_memory"
KNOWN = ("stage", "seconds", "bytes", "peak_memory", "skipped")


@contextmanager
def measured(lines: list[dict[str, Any]]) -> Iterator[None]:
    """Add a line about the whole block: how long it took, the most memory it had, and Spark's metrics."""
    begin, since = time.time(), time.monotonic()
    _reset_peak()
    yield
    about = {"stage": DATASET, "seconds": round(time.monotonic() - since, 2), "peak_memory": _peak_memory()}
    lines.append({**about, **spark_metrics(begin, time.time())})


def log_rows(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table `run_log`: one row per stage; what only some stages say is JSON."""
    rows = []
    for line in lines:
        details = {name: value for name, value in line.items() if name not in KNOWN}
        row = {name: line.get(name) for name in KNOWN}
        seconds = None if row["seconds"] is None else float(row["seconds"])
        rows.append({**row, "seconds": seconds, "skipped": bool(row["skipped"]), "details": json.dumps(details)})
    return rows


def cost_checks(lines: Sequence[dict[str, Any]], before: pa.Table | None, allowed: CostSettings) -> list[Check]:
    """Whether a dataset took more than its baseline by more than the allowed factor. Nights in which nothing was to be
    done do not compare with those in which something was."""
    was = before.to_pylist() if before is not None else []
    if {line["stage"] for line in lines if not line.get("skipped")} != {
        row["stage"] for row in was if not row["skipped"]
    }:
        return []
    made = []
    for name, factor in ((SECONDS, allowed.seconds), (MEMORY, allowed.memory)):
        earlier = next((row[name] for row in was if row["stage"] == DATASET), None)
        tonight = next((line[name] for line in lines if line["stage"] == DATASET), None)
        if factor is not None and earlier and tonight:
            made.append(Check(name, AGAINST, float(tonight), float(earlier), None, float(earlier) * factor))
    return made


def _peak_memory() -> int:
    """The most memory this process had, in bytes: since the last reset, where the system can be asked."""
    try:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])
    except (OSError, StopIteration, ValueError):
        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _reset_peak() -> None:
    # Without the right to do so, the peak is that of the whole process so far.
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
