"""What a night costs: the log of its stages, with the time, the memory and Spark's metrics of each dataset."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from jobs.nights.checks import AGAINST, Check
from jobs.settings.nightly import CostSettings
from udfs.stores.addresses import local_folder

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
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
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
