"""What Spark's event log says about the tasks of a time: read from the files, since sessions may be remote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from udfs.storage import local_folder

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
