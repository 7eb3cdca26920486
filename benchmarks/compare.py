"""The cost of an evaluation here and in another checkout, and what all metrics cost, in turns.

    python -m benchmarks.compare [--other CHECKOUT] [--engine local] [--tests no yes] [--texts 8000] [--rounds 5]

Of the engine `local`, seconds of processor time from list rows in memory to all figures: the time of all threads, which
other work on the machine changes little. Of the engines on Spark, seconds on the clock, which ask for a quiet machine.
In every round each of the candidates has one turn, in a process of its own; compared are the medians of the rounds'
ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.data import write_data
from fusion.registry import METRICS

ROOT = Path(__file__).parents[1]
PAPER = [f"{metric}@{k}" for metric in ("ndcg", "precision") for k in (1, 5, 10)]
TURN = """
import json, sys, time
from jobs import evaluate
from jobs.config import load_config

settings = json.loads(sys.argv[1])
config = load_config(None, {"evaluate.randomizations": 0, **settings})
clock = time.process_time if settings["grid.engine"] == "local" else time.perf_counter
def seconds():
    begin = clock()
    evaluate.compute(None, config)
    return clock() - begin

seconds()
print(min(seconds() for _ in range(3)))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--engine", choices=("local", "arrays", "windows"), default="local")
    parser.add_argument("--tests", choices=("no", "yes"), nargs="+", default=["no", "yes"])
    parser.add_argument("--texts", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "xmtc-fusion-bench")
    arguments = parser.parse_args()
    inputs = write_data(arguments.data / str(arguments.texts), arguments.texts)
    for details in (choice == "yes" for choice in arguments.tests):
        engine = {"grid.engine": arguments.engine}
        common = {**inputs, **engine, "evaluate.details": details, "evaluate.metrics": PAPER}
        turns = {"here": (ROOT, common), "all metrics": (ROOT, {**common, **all_metrics(inputs)})}
        if arguments.other is not None:
            turns["other"] = (arguments.other, common)
        seconds: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(arguments.rounds):
            for name, (checkout, settings) in turns.items():
                seconds[name].append(turn(checkout, settings))
        print(f"{arguments.engine}, {'with' if details else 'without'} tests, {arguments.texts:,} texts")
        for name, taken in seconds.items():
            ratio = statistics.median(one / first for one, first in zip(taken, seconds["here"], strict=True))
            print(f"  {name:12} {1e6 * min(taken) / arguments.texts:7.1f} microseconds per text, {ratio:.3f} of here")


def all_metrics(inputs: dict[str, object]) -> dict[str, object]:
    """The settings that ask for every metric, at 1, 5 and 10 where it has a cut-off."""
    deep = [entry.name for entry in METRICS if entry.cutoff != "needed"]
    cut = [f"{entry.name}@{k}" for entry in METRICS if entry.cutoff == "needed" for k in (1, 5, 10)]
    return {"evaluate.metrics": [*cut, *deep], "inputs.training": inputs["inputs.judgements"]}


def turn(checkout: Path, settings: dict[str, object]) -> float:
    """Processor seconds of the fastest of three evaluations that follow another one in their process."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        [sys.executable, "-c", TURN, json.dumps(settings)],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
