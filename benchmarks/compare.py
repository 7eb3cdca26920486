"""The cost of an evaluation here and in another checkout, and of all metrics, evaluation by evaluation in turns.

    python -m benchmarks.compare --other CHECKOUT [--engines local arrays] [--texts 20000] [--rounds 3]

Evaluated are the paper's 60 cells with its six measures for tail, head and all labels, without tests over texts, and
here also with all metrics. In every round each candidate is a process of its own; all of them wait while one evaluates,
and who begins alternates, so that a change of the machine's speed meets all alike. Seconds are processor time of all
threads, of the JVM and of Spark's workers, which other work on the machine changes less than the clock's.

The first evaluations of a process load compiled code from disk, and in the JVM compile it, so they are reported apart:
`first` is the first evaluation, `settled` the median of the later half, `least` the cheapest of all. Ratios are medians
over the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.data import write_data
from fusion.registry import METRICS

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "compare.md"
PAPER = [f"{metric}@{k}" for metric in ("ndcg", "precision") for k in (1, 5, 10)]
HERE, OTHER, EVERY = "here", "other", "here, all metrics"
Evaluate = Callable[[], float]
SUMMARIES: dict[str, Callable[[Sequence[float]], float]] = {
    "first": lambda seconds: seconds[0],
    "settled": lambda seconds: median(seconds[len(seconds) // 2 :]),
    "least": min,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, required=True)
    parser.add_argument("--engines", choices=("local", "arrays", "windows"), nargs="+", default=["local", "arrays"])
    parser.add_argument("--texts", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--evaluations", type=int, default=8, help="of each candidate in a round")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "xmtc-fusion-bench")
    arguments = parser.parse_args()
    inputs = write_data(arguments.data / str(arguments.texts), arguments.texts)
    shared = {**inputs, "evaluate.details": False, "evaluate.metrics": PAPER}
    other = arguments.other.resolve()
    lines = [
        f"{arguments.texts:,} texts, the paper's 60 cells with its six measures; {OTHER}: {commit(other)}. "
        "Seconds of processor time, one evaluation after the other.",
    ]
    for engine in arguments.engines:
        settings = {**shared, "grid.engine": engine}
        candidates = {
            HERE: (ROOT, settings),
            OTHER: (other, settings),
            EVERY: (ROOT, {**settings, **all_metrics(inputs)}),
        }
        # So that compiled code lies on disk.
        one_round(candidates, 1, 0)
        rounds = [one_round(candidates, arguments.evaluations, number) for number in range(arguments.rounds)]
        lines += ["", f"## Engine `{engine}`", "", *seconds_table(rounds), "", *ratio_table(rounds)]
        RESULT.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def commit(checkout: Path) -> str:
    """The commit of a checkout, and what it says."""
    command = ["git", "-C", str(checkout), "log", "-1", "--format=%h (%s)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def all_metrics(inputs: Mapping[str, object]) -> dict[str, object]:
    """The settings that ask for every metric, at 1, 5 and 10 where it has a cut-off."""
    deep = [entry.name for entry in METRICS if entry.cutoff != "needed"]
    cut = [f"{entry.name}@{k}" for entry in METRICS if entry.cutoff == "needed" for k in (1, 5, 10)]
    return {"evaluate.metrics": [*cut, *deep], "inputs.training": inputs["inputs.judgements"]}


def one_round(
    candidates: Mapping[str, tuple[Path, dict[str, object]]], evaluations: int, number: int
) -> dict[str, list[float]]:
    """The seconds of every evaluation of each candidate, in fresh processes."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    with ExitStack() as stack:
        started = {name: stack.enter_context(process(*candidate)) for name, candidate in candidates.items()}
        for turn in range(evaluations):
            order = list(started)
            for name in order if (number + turn) % 2 == 0 else reversed(order):
                seconds[name].append(started[name]())
    return seconds


@contextmanager
def process(checkout: Path, settings: dict[str, object]) -> Iterator[Evaluate]:
    """A process with the packages of a checkout that evaluates whenever it is asked to."""
    code = (ROOT / "benchmarks" / "turn.py").read_text()
    started = subprocess.Popen(
        [sys.executable, "-c", code, json.dumps(settings)],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert started.stdin is not None and started.stdout is not None
    asked, answers = started.stdin, started.stdout

    def evaluate() -> float:
        print(file=asked, flush=True)
        for line in answers:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise RuntimeError(f"{checkout}: the evaluation failed")

    try:
        yield evaluate
    finally:
        asked.close()
        started.wait()


def seconds_table(rounds: Sequence[Mapping[str, Sequence[float]]]) -> list[str]:
    """Every evaluation of every round."""
    evaluations = len(next(iter(rounds[0].values())))
    lines = [
        f"| round | | {' | '.join(str(number + 1) for number in range(evaluations))} |",
        f"|---|---|{'---|' * evaluations}",
    ]
    for number, seconds in enumerate(rounds, 1):
        lines += [
            f"| {number} | {name} | {' | '.join(f'{one:.2f}' for one in taken)} |" for name, taken in seconds.items()
        ]
    return lines


def ratio_table(rounds: Sequence[Mapping[str, Sequence[float]]]) -> list[str]:
    """What candidates cost beside others, by each summary; in brackets the least and the most of the rounds."""
    lines = [f"| seconds of | {' | '.join(SUMMARIES)} |", f"|---|{'---|' * len(SUMMARIES)}"]
    for one, beside in ((HERE, OTHER), (EVERY, HERE)):
        shown = []
        for summary in SUMMARIES.values():
            ratios = [summary(seconds[one]) / summary(seconds[beside]) for seconds in rounds]
            shown.append(f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
        lines.append(f"| {one}, per second of {beside} | {' | '.join(shown)} |")
    return lines


if __name__ == "__main__":
    main()
