"""Simulated nights: how many planted drops the gate catches, and how many alarms are false; how a long history answers.

`python -m benchmarks.nights` runs 200 nights for each planted drop and writes benchmarks/results/nights.md.

Every night has 1,000 texts with an nDCG@10 of a fused cell and of two retrievers alone, for two label groups. The data
drift: each night a hundredth of the texts is exchanged and the figures of some wander; and as with models that are
trained anew each night, three texts in ten come out better or worse by about 10 points. One night in twenty is missing,
one in fifteen is run twice. In the middle, the code becomes worse by the planted drop and stays so until it is repaired
twenty nights later. The gate is that of the job: paired tests, Holm's correction, a tolerance of 0.5 points, level
0.01. A drop of 0.5 points is just what is tolerated: an alarm there is as false as one without a drop.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa

from fusion.metrics import Measure
from fusion.statistics.gate import alarms
from jobs.monitoring import commands, delta_tables
from jobs.monitoring.baseline import changes, watched_figures
from jobs.monitoring.history import History
from jobs.monitoring.history_tables import typed
from jobs.monitoring.lease import held_lease
from jobs.monitoring.trend import trend_page
from jobs.reporting.night_data import NightVerdict
from jobs.settings.nightly import NightlySettings

TEXTS, NIGHTS, LEVEL, TOLERANCE = 1_000, 200, 0.01, 0.005
CELLS = (("zmuv", "combmnz"), ("single", "bm25"), ("single", "dense"))
GROUPS = ("tail", "head")
PINNED, BEGIN, END = 90, 100, 120
"""The night that is pinned, and the nights of the planted drop."""
MEASURE = Measure("ndcg", 10)
RESULTS = Path(__file__).parent / "results" / "nights.md"


class World:
    """Texts that come and go, and how well they are answered."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.ids = np.arange(TEXTS)
        self.next_id = TEXTS
        self.level = self._new(TEXTS)

    def _new(self, texts: int) -> np.ndarray:
        return self.rng.beta(2, 2, (texts, len(CELLS), len(GROUPS)))

    def pass_a_day(self) -> None:
        gone = self.rng.choice(TEXTS, TEXTS // 100, replace=False)
        self.ids[gone] = np.arange(self.next_id, self.next_id + len(gone))
        self.next_id += len(gone)
        self.level[gone] = self._new(len(gone))
        wander = self.rng.normal(0, 0.02, self.level.shape) * (self.rng.random(self.level.shape) < 0.1)
        self.level += wander

    def figures(self, drop: float) -> pa.Table:
        """Every text's figures. The drop, in points, befalls the fused cell and one retriever, in some texts much."""
        noise = self.rng.normal(0, 0.1, self.level.shape) * (self.rng.random(self.level.shape) < 0.3)
        level = self.level + noise
        hurt = self.rng.random(TEXTS) < 0.2
        level[hurt, :, :] -= np.array([drop, 0, drop])[None, :, None] / 100 / 0.2
        names = [(cell, group) for cell in range(len(CELLS)) for group in range(len(GROUPS))]
        ids = pa.array(self.ids).cast(pa.string())
        tables = [
            pa.table(
                {
                    "text_id": ids,
                    "normalization": [CELLS[cell][0]] * TEXTS,
                    "fusion": [CELLS[cell][1]] * TEXTS,
                    "label_group": [GROUPS[group]] * TEXTS,
                    str(MEASURE): level[:, cell, group],
                    "judgement": pa.array(np.zeros(TEXTS, np.int64)),
                }
            )
            for cell, group in names
        ]
        return pa.concat_tables(tables)


def simulate(drop: float, seed: int, pinned: bool) -> dict[str, int]:
    """200 nights with one planted drop. Without a pinned night, a drop that is missed is the next baseline."""
    world = World(seed)
    chance = np.random.default_rng(seed + 1)
    baseline: pa.Table | None = None
    pin: pa.Table | None = None
    counts = {"nights": 0, "reruns": 0, "missing": 0, "false": 0, "caught": 0, "during": 0}
    first = 0
    for night in range(NIGHTS):
        world.pass_a_day()
        if chance.random() < 1 / 20:
            counts["missing"] += 1
            continue
        planted = BEGIN <= night < END and drop > 0
        runs = 2 if chance.random() < 1 / 15 else 1
        counts["reruns"] += runs - 1
        for attempt in range(runs):
            tonight = world.figures(drop if planted else 0.0)
            found = changes(baseline, tonight, [MEASURE], "simulated", "last", TOLERANCE)
            found |= changes(pin, tonight, [MEASURE], "simulated", "pinned", TOLERANCE)
            fallen = alarms(found, LEVEL)
            if attempt == runs - 1:
                counts["nights"] += 1
                counts["during"] += planted
                counts["caught"] += planted and bool(fallen)
                counts["false"] += not planted and bool(fallen)
                if planted and fallen and not first:
                    first = night - BEGIN + 1
                if not fallen:
                    baseline = tonight
        if pinned and pin is None and night >= PINNED:
            pin = baseline
    return {**counts, "first": first}


def long_history(nights: int) -> dict[str, float]:
    """A history of many nights: seconds for one more commit, for `status`, and for the trend page."""
    folder = Path(tempfile.mkdtemp(prefix="nights-"))
    history = History(str(folder / "history"))
    rows = watched_figures(World(0).figures(0), [MEASURE])
    flush = delta_tables._to_disk
    for n in range(nights):
        # Only the last night waits for the disk, as every night does.
        delta_tables._to_disk = flush if n == nights - 1 else lambda path: None
        begin = time.perf_counter()
        run_id = f"night-{n:04d}"
        with held_lease(history.storage, run_id, 600) as lease:
            _one_more(history, run_id, lease.number, rows)
    seconds = {"the last night: lease, tables, commit": time.perf_counter() - begin}
    for name, work in {
        "status": lambda: commands.status(history),
        "show": lambda: commands.show(history, f"night-{nights - 1:04d}"),
        "the trend page": lambda: trend_page(history, NightlySettings(), NightVerdict("x", 0, TOLERANCE, ())),
    }.items():
        begin = time.perf_counter()
        work()
        seconds[name] = time.perf_counter() - begin
    shutil.rmtree(folder)
    return seconds


def _one_more(history: History, run_id: str, attempt: int, rows: list[dict[str, object]]) -> None:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for name, made in (
        ("run_log", [{"stage": "dataset", "seconds": 1.0}]),
        ("watched", rows),
        ("drift", [{"value": 1.0}]),
    ):
        history.append(name, typed(name, made), run_id, "simulated", attempt)
    figures = pa.table({"label": ["a"], "texts": [1]})
    history.append("label_counts", figures, run_id, "simulated", attempt)
    row = {"run_id": run_id, "dataset": "simulated", "attempt": attempt, "verdict": "ok", "figures": True}
    history.commit([{**row, "started": moment, "finished": moment, "evaluated": True}])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="simulations per drop")
    parser.add_argument("--history", type=int, default=1000, help="nights of the long history")
    arguments = parser.parse_args()
    lines = [
        "# Simulated nights",
        "",
        "Made by `python -m benchmarks.nights`: " + " ".join(__doc__.split("\n\n", 2)[2].split()),
        "",
        "| baseline | drop | nights | missing | run twice | nights of it | alarms then | first one | other alarms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for pinned, drop in product((False, True), (0.0, 0.5, 1.0, 2.0, 4.0)):
        made = [simulate(drop, seed, pinned) for seed in range(arguments.seeds)]
        sums = {key: sum(int(one[key]) for one in made) for key in made[0] if key != "first"}
        firsts = sorted(int(one["first"]) for one in made if one["first"])
        when = f"night {firsts[0]} to {firsts[-1]}" if firsts else "-"
        cells = ["night 90, pinned, and the last good" if pinned else "the last good", f"{drop:g}"]
        cells += [str(sums[key]) for key in ("nights", "missing", "reruns", "during", "caught")]
        lines.append(f"| {' | '.join([*cells, when])} | {sums['false']} |")
        print(lines[-1], flush=True)
    lines += ["", f"## {arguments.history:,} nights in the history", "", "| | seconds |", "|---|---|"]
    for name, seconds in long_history(arguments.history).items():
        lines.append(f"| {name} | {seconds:.2f} |")
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
