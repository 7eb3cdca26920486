"""Cells beyond the paper's 60: what they cost, and all subsets of eight retrievers.

    python -m benchmarks.cells [--texts 512] [--subset-texts 20000]

Kernel: 2 retrievers x 2 label groups x 64 labels per text; tail, head and all labels are ranked. Seconds are those of
one core's work, the least of several rounds. Subsets: the engine `local`, ten cells over each of the 247 subsets of two
or more of eight retrievers, nDCG@10 of tail, head and all labels; in a process of its own, whose memory is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.data import write_data

RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parents[1]
ROUNDS = 7
EIGHT = tuple(f"r{number}" for number in range(8))
TEN = [
    *(f"zmuv+{name}" for name in ("combmin", "combmax", "combmed", "combsum", "combanz", "combmnz")),
    *("isr", "log-isr", "bordafuse", "rrf"),
]
KERNEL = """
import json, sys, time
import numpy as np
from benchmarks.data import make_chunk
from fusion.grid.grid import Grid
from fusion.kernel.texts import TextBlock
from fusion.grid.hits import find_hits
from fusion.kernel.pools import Relevant
texts, chosen, rounds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
chunk = make_chunk(0, texts, 4000)
start, stop, at, labels, scores = np.zeros((texts, 2, 2), np.int64), np.zeros((texts, 2, 2), np.int64), 0, [], []
for r, name in enumerate(("bm25", "dense")):
    for g, group in enumerate(("tail", "head")):
        label, score = chunk.lists[name, group]
        ends = at + np.cumsum((label >= 0).sum(axis=1))
        start[:, r, g], stop[:, r, g] = np.concatenate(([at], ends[:-1])), ends
        labels.append(label[label >= 0]); scores.append(score[label >= 0].astype(np.float64)); at = ends[-1]
ends = np.cumsum(chunk.sizes)
owner = np.repeat(np.arange(texts), chunk.sizes)
relevant = chunk.relevant[np.lexsort((chunk.relevant, owner))]
wanted = Relevant(np.concatenate(([0], ends[:-1])), ends, relevant)
group = np.zeros(len(relevant), np.int8)
block = TextBlock(("tail", "head"), start, stop, np.concatenate(labels), np.concatenate(scores), np.empty(0, np.int8),
                  wanted, group)
grid = Grid.of(chosen, chosen)
def seconds():
    begin = time.process_time()
    find_hits(block, grid, ("tail", "head", "all"), ("tail", "head"), "group")
    return time.process_time() - begin
seconds()
print(json.dumps([min(seconds() for _ in range(rounds)), len(grid.cells), len(grid.columns)]))
"""
SUBSETS = """
import json, resource, sys, time
from jobs import evaluate
from jobs.settings.config import load_config
settings = json.loads(sys.argv[1])
begin = time.perf_counter()
result = evaluate.run(None, load_config(None, settings))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
cells = result.metrics.group_by(["normalization", "fusion"]).aggregate([])
print(json.dumps([time.perf_counter() - begin, time.process_time(), peak, len(cells)]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=512)
    parser.add_argument("--subset-texts", type=int, default=20_000)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "xmtc-fusion-bench")
    arguments = parser.parse_args()
    lines = [*kernel_lines(arguments.texts), ""]
    if arguments.subset_texts:
        lines += subset_lines(arguments.subset_texts, arguments.data)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cells.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def kernel_lines(texts: int) -> list[str]:
    """What a text costs in the kernel, by choice of cells."""
    measured: dict[str, list[list[float]]] = {"all": [], "everything": []}
    for _ in range(3):
        for chosen, rows in measured.items():
            rows.append(run(KERNEL, str(texts), chosen, str(ROUNDS)))
    lines = ["| cells | distinct | microseconds of a core per text |", "|---|---|---|"]
    for chosen, rows in measured.items():
        _, cells, columns = rows[0]
        cost = min(seconds for seconds, *_ in rows) / texts * 1e6
        lines.append(f"| `{chosen}`, {cells:.0f} | {columns:.0f} | {cost:.0f} |")
    return lines


def subset_lines(texts: int, data: Path) -> list[str]:
    inputs = write_data(data / f"{texts}-eight", texts, retrievers=EIGHT)
    settings = {
        **inputs,
        "grid.cells": TEN,
        "grid.subsets": "all",
        "grid.engine": "local",
        "evaluate.metrics": "ndcg@10",
        "evaluate.details": False,
    }
    small = write_data(data / "20-eight", 20, retrievers=EIGHT)
    # A few texts first, so that compiling is not measured.
    run(SUBSETS, json.dumps({**settings, **small}))
    seconds, work, peak, cells = run(SUBSETS, json.dumps(settings))
    return [
        f"Eight retrievers, all 247 subsets of two or more, ten cells each ({cells:,.0f} with the single retrievers), "
        f"{texts:,} texts: {seconds:,.0f} s, of which {work:,.0f} s of a core's work; at most {peak / 2**20:,.0f} MiB.",
    ]


def run(code: str, *arguments: str) -> list[float]:
    """What code prints as JSON, in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
