"""Evaluations on demand: one per line of input, after which the seconds of processor time that it took are printed.

Run by benchmarks/compare.py with the packages of any checkout, so it uses only what old versions have, too. Counted is
the time of all threads, of the JVM and of Spark's workers.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from jobs import evaluate
from jobs.config import load_config

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float:
    """Of this process and of all that descend from it, ended ones included."""
    parents, spent = {}, {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(process.name)] = int(fields[1])
        spent[int(process.name)] = sum(map(int, fields[11:15])) / TICKS
    times = os.times()
    total, found = time.process_time() + times.children_user + times.children_system, {os.getpid()}
    while found := {process for process, parent in parents.items() if parent in found}:
        total += sum(spent[process] for process in found)
    return total


def main() -> None:
    settings = json.loads(sys.argv[1])
    config = load_config(None, settings)
    session = None
    if settings["grid.engine"] != "local":
        from jobs.runtime.session import get_session

        session = get_session(config.spark)
    for _ in sys.stdin:
        begin = processor_seconds()
        evaluate.compute(session, config)
        print(f"seconds {processor_seconds() - begin}", flush=True)


if __name__ == "__main__":
    main()
