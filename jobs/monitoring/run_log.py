"""What a night cost: seconds and bytes of its stages, peak memory, and what Spark says about its tasks."""

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

from jobs.monitoring.data_checks import AGAINST, Check
from jobs.monitoring.event_log import spark_metrics
from jobs.settings.nightly import CostSettings

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
