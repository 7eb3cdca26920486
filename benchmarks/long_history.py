"""A history of 1,000 nights: how long a whole night, `nightly status` and the pages take with it.

    python -m benchmarks.long_history

A first night is a real one: 1,000 texts, three watched cells in two label groups. Then its rows enter the history under
other names: each night takes the lease and commits itself, as nights do; the rows of its other tables are written
for 50 nights at a time, in files of their own where tables have them. After that the commands are timed as whole
processes, start-up and pages included, beside the same with a few nights. CPU seconds must stay within what is allowed:
they hardly depend on what else the machine does. Writes benchmarks/results/long_history.md.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import yaml

from benchmarks.data import write_data
from jobs.monitoring import delta_tables
from jobs.monitoring.history import History
from jobs.monitoring.history_tables import KEYS, RUNS, TABLES, with_keys
from jobs.monitoring.lease import held_lease

RESULTS = Path(__file__).parent / "results" / "long_history.md"
TEXTS, NIGHTS, REPEATS = 1_000, 1_000, 2
FIRST, DATASET = "night-0000", "synthetic"
NIGHTLY, STATUS, SHOW, COMPARE = "nightly", "nightly status", "nightly show", "nightly compare"
UNCHANGED = "nightly, nothing changed"
LIMITS = {NIGHTLY: 30.0, UNCHANGED: 20.0, STATUS: 6.0, SHOW: 8.0, COMPARE: 8.0}
"""CPU seconds that a command may take with 1,000 nights."""
TOGETHER = 50
"""Nights whose rows are written at once."""


class Seconds(NamedTuple):
    """Of a process, from its start to its end."""

    cpu: float
    elapsed: float


class Site:
    """A dataset and its nights, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        settings: dict[str, Any] = {"dataset": DATASET, "inputs": {}}
        for name, value in write_data(folder / "data", TEXTS).items():
            settings["inputs"][name.split(".")[1]] = value
        self.dataset = folder / "synthetic.yaml"
        self.dataset.write_text(yaml.safe_dump(settings))
        self.history = History(str(self.work / "history"))

    def seconds(self, *words: str) -> Seconds:
        """The time of a command as a whole process."""
        command = [sys.executable, "-m", "jobs.cli", "nightly", *words, "--work", str(self.work)]
        if words[:1] == ("--run-id",):
            command += ["--datasets", str(self.dataset), "--set", "report.figures=false"]
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Seconds(cpu, time.perf_counter() - begin)

    def change(self) -> None:
        """Another setting, so that the dataset is evaluated again."""
        settings = yaml.safe_load(self.dataset.read_text())
        seed = settings.get("evaluate", {}).get("seed", 0)
        settings["evaluate"] = {"seed": seed + 1}
        self.dataset.write_text(yaml.safe_dump(settings))

    def repeat(self, nights: int) -> None:
        """The first night's rows as those of further nights."""
        rows = {name: self.history.read(name, [FIRST]) for name in TABLES}
        runs = rows.pop(RUNS)
        assert runs is not None
        run = runs.to_pylist()[0]
        tables = {name: table.drop_columns(list(KEYS)) for name, table in rows.items() if table is not None}
        flush = delta_tables._to_disk
        # Waiting for the disk a thousand times would measure the disk.
        delta_tables._to_disk = lambda path: None
        for first in range(1, nights, TOGETHER):
            numbers = {}
            for n in range(first, min(first + TOGETHER, nights)):
                run_id = f"night-{n:04d}"
                with held_lease(self.history.storage, run_id, 600) as lease:
                    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                    about = {"run_id": run_id, "attempt": lease.number, "started": moment, "finished": moment}
                    self.history.commit([{**run, **about}])
                numbers[run_id] = lease.number
            for name, table in tables.items():
                together = [with_keys(table, run_id, DATASET, number) for run_id, number in numbers.items()]
                self.history.storage.append(name, pa.concat_tables(together))
            print(f"{first + len(numbers)} nights", flush=True)
        delta_tables._to_disk = flush

    def timed(self, last: str, label: str) -> dict[str, Seconds]:
        """Seconds of each command, the fastest of a few."""
        found: dict[str, list[Seconds]] = {name: [] for name in LIMITS}
        for again in range(REPEATS):
            self.change()
            found[NIGHTLY].append(self.seconds("--run-id", f"{label}-{again}"))
            found[UNCHANGED].append(self.seconds("--run-id", f"{label}-{again}-unchanged"))
            found[STATUS].append(self.seconds("status"))
            found[SHOW].append(self.seconds("show", last))
            found[COMPARE].append(self.seconds("compare", FIRST, last))
        return {name: min(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=NIGHTS)
    nights = parser.parse_args().nights
    with tempfile.TemporaryDirectory(prefix="nights-") as scratch:
        site = Site(Path(scratch))
        site.seconds("--run-id", FIRST)
        few = site.timed(FIRST, "few")
        site.repeat(nights)
        many = site.timed(f"night-{nights - 1:04d}", "many")
    lines = [
        f"# {nights:,} nights in the history",
        "",
        "Made by `python -m benchmarks.long_history`: " + " ".join(__doc__.split("\n\n", 2)[2].split()),
        "",
        f"| | CPU, a few nights | CPU, {nights:,} nights | allowed | elapsed, {nights:,} nights |",
        "|---|---|---|---|---|",
    ]
    for name, limit in LIMITS.items():
        figures = f"{few[name].cpu:.1f} s | {many[name].cpu:.1f} s | {limit:g} s | {many[name].elapsed:.1f} s"
        lines.append(f"| `{name}` | {figures} |")
    print("\n".join(lines))
    slow = [name for name, limit in LIMITS.items() if many[name].cpu > limit]
    if slow:
        sys.exit(f"too slow: {', '.join(slow)}")
    if nights == NIGHTS:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
