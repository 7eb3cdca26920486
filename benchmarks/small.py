"""Two TREC runs of 50 queries from the command line: seconds of a whole process, next to ranx on the same files.

    python -m benchmarks.small

`cold` compiles everything (an empty NUMBA_CACHE_DIR), `warm` finds compiled code on disk. The jobs are the same: all
60 cells, nDCG@10 and P@1. Writes benchmarks/results/small.md.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
TEXTS, LABELS, LISTED, RELEVANT = 50, 1_000, 100, 5
REPEATS = 3
RANX = """
import sys
from itertools import product
from ranx import Qrels, Run, evaluate, fuse
folder = sys.argv[1]
qrels = Qrels.from_file(f"{folder}/qrels.txt", kind="trec")
runs = [Run.from_file(f"{folder}/{name}.trec", kind="trec") for name in ("bm25", "dense")]
norms = ("min-max", "max", "sum", "zmuv", "rank", "borda")
methods = ("min", "max", "med", "sum", "anz", "mnz", "isr", "log_isr", "bordafuse", "condorcet")
figures = {cell: evaluate(qrels, fuse(runs, *cell), ["ndcg@10", "precision@1"]) for cell in product(norms, methods)}
print(len(figures))
"""


def write_runs(folder: Path) -> None:
    rng = np.random.default_rng(0)
    lines: dict[str, list[str]] = {"bm25": [], "dense": [], "qrels": []}
    for text in range(TEXTS):
        relevant = rng.choice(LABELS, RELEVANT, replace=False)
        lines["qrels"] += [f"t{text} 0 l{label} 1" for label in relevant]
        for name in ("bm25", "dense"):
            others = rng.choice(LABELS, LISTED, replace=False)
            listed = list(dict.fromkeys([*relevant[rng.random(RELEVANT) < 0.7], *others]))[:LISTED]
            scores = rng.normal(size=len(listed)) + 2 * np.isin(listed, relevant)
            order = np.argsort(-scores)
            lines[name] += [f"t{text} Q0 l{listed[i]} {rank} {scores[i]:.4f} {name}" for rank, i in enumerate(order, 1)]
    for name, rows in lines.items():
        suffix = "txt" if name == "qrels" else "trec"
        (folder / f"{name}.{suffix}").write_text("\n".join(rows) + "\n")


def seconds(command: list[str], cache: Path) -> float:
    """The time of a whole process, from its start to its end."""
    begin = time.perf_counter()
    subprocess.run(command, env={**os.environ, "NUMBA_CACHE_DIR": str(cache)}, check=True, capture_output=True)
    return time.perf_counter() - begin


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        write_runs(folder)
        runs = [f"--run={name}={folder}/{name}.trec" for name in ("bm25", "dense")]
        ours = [sys.executable, "-m", "jobs.cli", "evaluate", *runs, f"--qrels={folder}/qrels.txt"]
        commands = {
            "`xmtc-fusion evaluate`, with all tests": [*ours, "--metrics=ndcg@10,precision@1"],
            "`xmtc-fusion evaluate`, figures only": [
                *ours, "--metrics=ndcg@10,precision@1", "--set=evaluate.details=false",
            ],
            "ranx": [sys.executable, "-c", RANX, str(folder)],
        }  # fmt: skip
        rows = []
        for n, (name, command) in enumerate(commands.items()):
            cache = folder / f"cache{n}"
            cold = seconds(command, cache)
            warm = min(seconds(command, cache) for _ in range(REPEATS))
            rows.append(f"| {name} | {cold:.1f} | {warm:.1f} |")
    lines = [
        f"Two TREC runs of {TEXTS} queries with {LISTED} results each, 60 cells, nDCG@10 and P@1: seconds of a whole",
        f"process on {os.cpu_count()} cores; warm is the best of {REPEATS}. `python -m benchmarks.small`",
        "",
        "| | cold | warm |",
        "|---|---|---|",
        *rows,
    ]
    text = "\n".join(lines) + "\n"
    (RESULTS / "small.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
