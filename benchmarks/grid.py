"""The whole grid with its metrics: both engines, the bare kernel over Parquet, and ranx, in one run.

    python -m benchmarks.grid [--texts 20000 80000 320000] [--ranx-texts 200] [--data FOLDER]

Candidates: 2 retrievers x 2 label groups x 64 labels per text, stored as one Parquet table per retriever.
Evaluated: tail, head and all labels; nDCG and P at 1, 5 and 10; both ideals. `all metrics` are all that there are, at
1, 5 and 10 where they have a cut-off. `everything` are all cells that need no training. `with tests` also compares the
cells text by text, with 100,000 random sign vectors, and the retrievers with each other. Engines run in local mode, one
thread per core. `cold` is the first job of the session; all other figures are the best of several later ones. Ways of
`arrays` that are compared with each other take turns, since Java code gets faster while it runs; what they leave or
cost is the median over the rounds, with the least and the most in brackets.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.bare import run_bare
from benchmarks.data import RETRIEVERS, write_data
from benchmarks.memory import WorkerMemory
from fusion.registry import METRICS
from jobs.engines.session import get_session
from jobs.engines.spark import SparkEngine
from jobs.evaluation import evaluate
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.settings.config import Config, load_config
from udfs.plan import EvaluationPlan

RESULTS = Path(__file__).parent / "results"
CORES = os.cpu_count() or 1
COMB_CELLS = {
    "grid.normalizations": "min-max,max,sum,zmuv,rank",
    "grid.fusions": "combmin,combmax,combmed,combsum,combanz,combmnz",
}
BARE, ARRAYS, COLD, WINDOWS, RANX = "bare kernel", "`arrays`", "`arrays`, cold", "`windows`", "ranx"
ALL_METRICS, EVERYTHING, WITH_TESTS = "`arrays`, all metrics", "`arrays`, everything", "`arrays`, with tests"
COMB = "`arrays`, Comb cells"
Inputs = dict[str, Any]
"""The settings that name the tables of one size."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, nargs="+", default=[20_000, 80_000, 320_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ranx-texts", type=int, default=200)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "xmtc-fusion-bench")
    arguments = parser.parse_args()
    compile_seconds = [compilation(fresh) for fresh in (True, False)]
    inputs = {texts: write_data(arguments.data / str(texts), texts) for texts in sorted(arguments.texts)}
    small, largest = min(inputs), max(inputs)

    session = get_session(config_of(inputs[largest]).spark)
    rates = {COLD: small / timed(session, config_of(inputs[small]))}
    sizes = by_size(session, inputs)
    # What is needed only once, such as compiling, is done before anything is compared.
    in_turns(session, ways_of(inputs[small]), 1)
    ways = ways_of(inputs[largest])
    seconds = in_turns(session, ways, arguments.rounds)
    rates.update({name: largest / min(taken) for name, taken in seconds.items()})
    rates[COMB] = largest / min(timed(session, config_of({**inputs[largest], **COMB_CELLS})) for _ in range(2))
    windows = config_of({**inputs[small], "grid.engine": "windows"})
    rates[WINDOWS] = small / min(timed(session, windows) for _ in range(2))
    evaluation = evaluation_of(session, ways[ARRAYS])
    session.stop()

    with ProcessPoolExecutor(CORES) as pool:
        run_bare(arguments.data / str(small), evaluation, pool, CORES)
        begin = time.perf_counter()
        texts = run_bare(arguments.data / str(largest), evaluation, pool, CORES)
        rates[BARE] = texts / (time.perf_counter() - begin)
    rates[RANX], ranx_comb = ranx_rates(arguments.data / str(small), arguments.ranx_texts)

    lines = [
        f"{CORES} cores, {largest:,} texts at most, {len(RETRIEVERS)} retrievers.",
        "",
        *rate_table(rates),
        "",
        *cost_lines(ways, seconds),
        f"Five normalisations x six Comb methods: `arrays` {rates[COMB]:,.0f} texts/s, ranx {ranx_comb:,.1f}: "
        f"{rates[COMB] / ranx_comb:,.0f} times.",
        "",
        *size_table(sizes),
        "",
        f"Compiling the kernel: {compile_seconds[0]:.1f} s once; loading it from the cache on disk: "
        f"{compile_seconds[1]:.1f} s.",
        f"`windows` and `cold` were measured at {small:,} texts, ranx at {arguments.ranx_texts}.",
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "grid.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def ways_of(inputs: Inputs) -> dict[str, Config]:
    """What is compared with the plain grid, which comes first."""
    return {
        ARRAYS: config_of(inputs),
        ALL_METRICS: config_of({**inputs, **all_metrics(inputs)}),
        EVERYTHING: config_of({**inputs, "grid.normalizations": "everything", "grid.fusions": "everything"}),
        WITH_TESTS: config_of({**inputs, "evaluate.details": True}),
    }


def all_metrics(inputs: Inputs) -> Inputs:
    """The settings that ask for every metric, at 1, 5 and 10 where it has a cut-off."""
    deep = [entry.name for entry in METRICS if entry.cutoff != "needed"]
    cut = [f"{entry.name}@{k}" for entry in METRICS if entry.cutoff == "needed" for k in (1, 5, 10)]
    return {"evaluate.metrics": [*cut, *deep], "inputs.training": inputs["inputs.judgements"]}


def in_turns(session: SparkSession, ways: Mapping[str, Config], rounds: int) -> dict[str, list[float]]:
    """The seconds of each way in every round; who begins changes from round to round."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        order = list(ways)
        for name in order[number % len(order) :] + order[: number % len(order)]:
            seconds[name].append(timed(session, ways[name]))
            print(f"round {number + 1}, {name}: {seconds[name][-1]:.1f} s", flush=True)
    return seconds


def by_size(session: SparkSession, inputs: Mapping[int, Inputs]) -> dict[int, tuple[float, int]]:
    """The seconds and the memory of a worker in bytes, by the number of texts.

    The largest comes first: it leaves a warm JVM, and what a further text costs shows without it.
    """
    sizes = {}
    for texts, settings in sorted(inputs.items(), reverse=True):
        with WorkerMemory() as memory:
            taken = min(timed(session, config_of(settings)) for _ in range(3))
        sizes[texts] = taken, memory.peak
    return dict(sorted(sizes.items()))


def rate_table(rates: Mapping[str, float]) -> list[str]:
    lines = ["| | texts/s | of the bare kernel | times ranx |", "|---|---|---|---|"]
    for name in (BARE, ARRAYS, ALL_METRICS, EVERYTHING, WITH_TESTS, COLD, WINDOWS, RANX):
        share = f"{rates[name] / rates[BARE]:.0%}" if name != RANX else ""
        lines.append(f"| {name} | {rates[name]:,.1f} | {share} | {rates[name] / rates[RANX]:,.0f} |")
    return lines


def cost_lines(ways: Mapping[str, Config], seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """What tests, metrics and cells cost on top of the plain grid of the same round."""

    def ratios(name: str) -> list[float]:
        return sorted(taken / plain for taken, plain in zip(seconds[name], seconds[ARRAYS], strict=True))

    tests = sorted(1 / ratio for ratio in ratios(WITH_TESTS))
    metrics, cells = (ratios(name) for name in (ALL_METRICS, EVERYTHING))
    return [
        f"Tests leave {median(tests):.0%} of the throughput of `arrays` ({tests[0]:.0%} to {tests[-1]:.0%}).",
        f"All {len(ways[ALL_METRICS].evaluate.parsed_metrics)} metrics take {median(metrics) - 1:.0%} longer than the "
        f"paper's six ({metrics[0] - 1:.0%} to {metrics[-1] - 1:.0%}).",
        f"Everything: {len(ways[EVERYTHING].grid.grid(RETRIEVERS).cells)} cells instead of 60, "
        f"{median(cells):.1f} times their time.",
    ]


def size_table(sizes: Mapping[int, tuple[float, int]]) -> list[str]:
    lines = [
        "| texts | seconds (warm) | microseconds per further text | peak memory of a Python worker |",
        "|---|---|---|---|",
    ]
    before: int | None = None
    for texts, (taken, memory) in sizes.items():
        marginal = "" if before is None else f"{(taken - sizes[before][0]) / (texts - before) * 1e6:.1f}"
        lines.append(f"| {texts:,} | {taken:.1f} | {marginal} | {memory / 2**20:,.0f} MiB |")
        before = texts
    return lines


def config_of(settings: Inputs) -> Config:
    return load_config(None, {"evaluate.details": False, "spark.master": f"local[{CORES}]", **settings})


def timed(session: SparkSession, config: Config) -> float:
    begin = time.perf_counter()
    evaluate.run(session, config)
    return time.perf_counter() - begin


def evaluation_of(session: SparkSession, config: Config) -> EvaluationPlan:
    layout = load_lists(InputTables(SparkEngine(session), Sources.of(config.inputs)), judged=True).layout.of_read
    cells = tuple(config.grid.grid(layout.retrievers).cells)
    return EvaluationPlan(layout, cells, layout.views, "group", tuple(config.evaluate.parsed_metrics))


def compilation(fresh: bool) -> float:
    """Seconds from imported code to a first result, in a process of its own."""
    code = (
        "import time, tests.lists as t, numpy as np; from fusion.grid.grid import Grid\n"
        "from fusion.grid.hits import find_hits\n"
        "rng = np.random.default_rng(0)\n"
        "texts = t.to_texts(t.random_texts(rng, 5), t.random_relevant(rng, 5))\n"
        "begin = time.perf_counter()\n"
        "find_hits(texts, Grid.of('all', 'all'), ('tail', 'head', 'all'), ('tail', 'head'), 'group')\n"
        "print(time.perf_counter() - begin)"
    )
    cache = Path(tempfile.gettempdir()) / "xmtc-fusion-bench-cache"
    if fresh and cache.exists():
        for file in cache.rglob("*"):
            if file.is_file():
                file.unlink()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return float(told.stdout)


def ranx_rates(folder: Path, texts: int) -> tuple[float, float]:
    """Texts per second of ranx, compiled beforehand: the whole grid, and its fast part."""
    from benchmarks import peer

    peer.seconds(peer.load(folder, RETRIEVERS, 5), peer.NORMS, peer.METHODS)
    data = peer.load(folder, RETRIEVERS, texts)
    return (
        texts / peer.seconds(data, peer.NORMS, peer.METHODS),
        texts / peer.seconds(data, peer.NORMS[:5], peer.COMB),
    )


if __name__ == "__main__":
    main()
