"""What the storage layer costs on a local disk: this tree beside another one, such as the commit before it.

    git worktree add ../before df11367^
    python -m benchmarks.storage --before ../before

Whole processes: `evaluate` of the whole grid in this process and on Spark, with all tables of results, from files to
files, and `run` on some of the demo's texts (with `--whole-demo` on all of them, as `make demo`, in one round only).
The trees take turns, so that whatever else the machine does befalls both; a first round only compiles.
CPU seconds are those of the process and all its descendants, Java included; elapsed seconds stand beside them. Writes
benchmarks/results/storage.md.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.data import write_data

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "storage.md"
TEXTS = 10_000
DEMO = "prepare.limit=300 prepare.folds=2 dense.max_length=32 dense.epochs=1 report.figures=false"
SUBREAPER = 36
"""The request of Linux's prctl by which orphans, such as Spark's Java, become this process's children."""


def evaluations(data: dict[str, Any], folder: Path) -> dict[str, list[str]]:
    """What is measured in every round; the same words for both trees."""
    runs = [f"--run={name}={path}" for name, path in data["inputs.candidates"].items()]
    judged = ["--qrels", data["inputs.judgements"], "--label-groups", data["inputs.label_groups"]]
    grid = ["evaluate", *runs, *judged, "--set", "evaluate.randomizations=1000"]
    engines = {engine: [*grid, "--engine", engine, "--output", str(folder / engine)] for engine in ("local", "arrays")}
    return {f"evaluate, {engine}, {TEXTS:,} texts": words for engine, words in engines.items()}


def demo(folder: Path, whole: bool) -> dict[str, list[str]]:
    """The demo, or a small part of it."""
    chosen = [] if whole else [word for setting in DEMO.split() for word in ("--set", setting)]
    words = ["run", "--config", "conf/datasets/debtags.yaml", "--work", str(folder / "work"), *chosen]
    return {"the demo, one round" if whole else "run, 300 texts": words}


def measured(tree: Path, words: list[str]) -> tuple[float, float]:
    """CPU and elapsed seconds of a command in a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "jobs.cli", *words], cwd=tree, env=environment, capture_output=True)
    elapsed = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{tree}: {done.stderr.decode()[-2000:]}")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, elapsed


def commit(tree: Path) -> str:
    """What is checked out there."""
    asked = ["git", "-C", str(tree), "log", "-1", "--format=%h, %s"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="another checkout")
    parser.add_argument("--after", type=Path, default=ROOT, help="the checkout to compare it with (this one)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole-demo", action="store_true", help="`run` on all texts of the demo, once")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1)
    trees = {"before": arguments.before.resolve(), "after": arguments.after.resolve()}
    times: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="storage-") as scratch:
        data = write_data(Path(scratch) / "data", TEXTS)
        for n in range(arguments.repeats + 1):
            for name, tree in trees.items():
                folder = Path(scratch) / "place"
                commands = evaluations(data, folder)
                if n <= 1 or not arguments.whole_demo:
                    commands |= demo(folder, arguments.whole_demo and n == 1)
                for work, words in commands.items():
                    figures = measured(tree, words)
                    print(n, name, work, *(f"{figure:.1f}" for figure in figures), flush=True)
                    if n:
                        times.setdefault((work, name), []).append(figures)
                shutil.rmtree(folder, ignore_errors=True)
    lines = [
        "# The storage layer on a local disk",
        "",
        "Made by `python -m benchmarks.storage`: " + " ".join(__doc__.split("\n\n", 2)[2].split()),
        "",
        f"Before: {commit(trees['before'])}. After: {commit(trees['after'])}. Medians of {arguments.repeats} rounds.",
        "",
        "| | CPU before | CPU after | ratio | elapsed before | elapsed after | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for work in dict.fromkeys(work for work, _ in times):
        cells = [work]
        for kind in (0, 1):
            before, after = (median(figures[kind] for figures in times[work, name]) for name in trees)
            cells += [f"{before:.1f} s", f"{after:.1f} s", f"{after / before:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    print("\n".join(lines))
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
