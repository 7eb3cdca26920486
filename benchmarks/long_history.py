"""A history of 1,000 nights: how long a whole nightly run, `nightly status` and the pages take with it.

    python -m benchmarks.long_history

A first night is a real one: 1,000 texts, three watched cells in two label groups. Its rows enter the history again
under other names, night after night, as a nightly run writes them. Then the commands are timed as whole processes, from
start to end, with one night in the history and with all of them; the slower of the two columns must stay within LIMITS.
Writes benchmarks/results/long_history.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.data import write_data
from jobs.monitoring import delta_tables
from jobs.monitoring.history import History
from jobs.monitoring.history_tables import KEYS, RUNS, TABLES
from jobs.monitoring.lease import held_lease

RESULTS = Path(__file__).parent / "results" / "long_history.md"
TEXTS, NIGHTS, REPEATS = 1_000, 1_000, 3
FIRST, DATASET = "night-0000", "synthetic"
NIGHTLY, STATUS, SHOW, COMPARE = "nightly", "nightly status", "nightly show", "nightly compare"
UNCHANGED = "nightly, nothing changed"
LIMITS = {NIGHTLY: 30.0, UNCHANGED: 20.0, STATUS: 6.0, SHOW: 8.0, COMPARE: 8.0}
"""Seconds that a command may take with 1,000 nights, start-up and the trend page of a night included."""


class Site:
    """A dataset and its nights, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.work = folder / "work"
        settings: dict[str, object] = {"dataset": DATASET, "inputs": {}}
        for name, value in write_data(folder / "data", TEXTS).items():
            settings["inputs"][name.split(".")[1]] = value  # type: ignore[index]
        self.dataset = folder / "synthetic.yaml"
        self.dataset.write_text(yaml.safe_dump(settings))
        self.history = History(str(self.work / "history"))

    def seconds(self, *words: str) -> float:
        """The time of a command as a whole process."""
        command = [sys.executable, "-m", "jobs.cli", "nightly", *words, "--work", str(self.work)]
        if words[:1] == ("--run-id",):
            command += ["--datasets", str(self.dataset), "--set", "report.figures=false"]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        return time.perf_counter() - begin

    def change(self, night: int) -> None:
        """Another setting, so that the dataset is evaluated again."""
        settings = yaml.safe_load(self.dataset.read_text())
        settings["evaluate"] = {"seed": night}
        self.dataset.write_text(yaml.safe_dump(settings))

    def repeat(self, nights: int) -> None:
        """The first night's rows as those of further nights."""
        rows = {name: self.history.read(name, [FIRST]) for name in TABLES}
        run = rows.pop(RUNS).to_pylist()[0]
        tables = {name: table.drop_columns(list(KEYS)) for name, table in rows.items() if table is not None}
        flush = delta_tables._to_disk
        # Waiting for the disk a thousand times would measure the disk.
        delta_tables._to_disk = lambda path: None
        for n in range(1, nights):
            run_id = f"night-{n:04d}"
            with held_lease(self.history.storage, run_id, 600) as lease:
                for name, table in tables.items():
                    self.history.append(name, table, run_id, DATASET, lease.number)
                moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
                about = {"run_id": run_id, "attempt": lease.number, "started": moment, "finished": moment}
                self.history.commit([{**run, **about}])
            if n % 100 == 0:
                print(f"{n} nights", flush=True)
        delta_tables._to_disk = flush

    def timed(self, last: str, label: str) -> dict[str, float]:
        """Seconds of each command, the fastest of a few."""
        found: dict[str, list[float]] = {name: [] for name in LIMITS}
        for again in range(REPEATS):
            self.change(hash(label) % 1000 * REPEATS + again)
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
        begin = time.perf_counter()
        site.repeat(nights)
        each = (time.perf_counter() - begin) / (nights - 1)
        many = site.timed(f"night-{nights - 1:04d}", "many")
    lines = [
        f"# {nights:,} nights in the history",
        "",
        "Made by `python -m benchmarks.long_history`: " + " ".join(__doc__.split("\n\n", 2)[2].split()),
        "",
        f"Writing the rows of one more night took {each:.2f} s on average.",
        "",
        f"| seconds of the whole command | a few nights | {nights:,} nights | allowed |",
        "|---|---|---|---|",
        *(f"| `{name}` | {few[name]:.1f} | {many[name]:.1f} | {limit:g} |" for name, limit in LIMITS.items()),
    ]
    print("\n".join(lines))
    slow = [name for name, limit in LIMITS.items() if many[name] > limit]
    if slow:
        sys.exit(f"too slow: {', '.join(slow)}")
    if nights == NIGHTS:
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
