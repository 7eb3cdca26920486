"""The whole grid with its metrics: both engines, the bare kernel over Parquet, and ranx, in one run.

    python -m benchmarks.grid [--texts 20000 80000 320000] [--ranx-texts 200] [--data FOLDER]

Candidates: 2 retrievers x 2 label groups x 64 labels per text, stored as one Parquet table per retriever.
Evaluated: tail, head and all labels; nDCG and P at 1, 5 and 10; both ideals. `all metrics` are all that there are, at
1, 5 and 10 where they have a cut-off; benchmarks/compare.py compares them in turns. `everything` are all cells that
need no training. `with tests` also compares the cells text by text, with 100,000 random sign vectors, and the
retrievers with each other. Engines run in local mode, one thread per core. `cold` is the first job of the session; all
other figures are the best of several later ones.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.bare import run_bare
from benchmarks.compare import all_metrics
from benchmarks.data import RETRIEVERS, write_data
from benchmarks.memory import WorkerMemory
from jobs import evaluate
from jobs.config import Config, load_config
from jobs.inputs.list_rows import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.spark_tables import SparkTables
from jobs.runtime.session import get_session
from udfs.evaluation_plan import EvaluationPlan

RESULTS = Path(__file__).parent / "results"
CORES = os.cpu_count() or 1
COMB = {
    "grid.normalizations": "min-max,max,sum,zmuv,rank",
    "grid.fusions": "combmin,combmax,combmed,combsum,combanz,combmnz",
}
WINDOWS_TEXTS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, nargs="+", default=[20_000, 80_000, 320_000])
    parser.add_argument("--ranx-texts", type=int, default=200)
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "xmtc-fusion-bench")
    arguments = parser.parse_args()
    compile_seconds = [compilation(fresh) for fresh in (True, False)]
    inputs = {texts: write_data(arguments.data / str(texts), texts) for texts in sorted(arguments.texts)}
    largest = max(inputs)
    lines = [f"{CORES} cores, {largest:,} texts at most, {len(RETRIEVERS)} retrievers.", ""]

    session = get_session(config_of(inputs[largest]).spark)
    rates: dict[str, float] = {}
    seconds: dict[int, float] = {}
    peaks: dict[int, int] = {}
    small = min(inputs)
    rates["`arrays`, cold"] = small / timed(session, config_of(inputs[small]))
    # The largest first: it leaves a warm JVM, and what a further text costs shows without it.
    for texts, settings in sorted(inputs.items(), reverse=True):
        with WorkerMemory() as memory:
            seconds[texts] = min(timed(session, config_of(settings)) for _ in range(3))
        peaks[texts] = memory.peak
    rates["`arrays`"] = largest / seconds[largest]
    with_tests = config_of({**inputs[largest], "evaluate.details": True})
    rates["`arrays`, with tests"] = largest / min(timed(session, with_tests) for _ in range(3))
    every = {**inputs[largest], **all_metrics(inputs[largest])}
    rates["`arrays`, all metrics"] = largest / min(timed(session, config_of(every)) for _ in range(3))
    everything = config_of({**inputs[largest], "grid.normalizations": "everything", "grid.fusions": "everything"})
    rates["`arrays`, everything"] = largest / timed(session, everything)
    comb = config_of({**inputs[largest], **COMB})
    comb_rate = largest / min(timed(session, comb) for _ in range(2))
    windows = config_of({**inputs[small], "grid.engine": "windows"})
    rates["`windows`"] = small / min(timed(session, windows) for _ in range(2))

    evaluation = evaluation_of(session, config_of(inputs[largest]))
    session.stop()
    with ProcessPoolExecutor(CORES) as pool:
        run_bare(arguments.data / str(small), evaluation, pool, CORES)
        begin = time.perf_counter()
        texts = run_bare(arguments.data / str(largest), evaluation, pool, CORES)
        rates["bare kernel"] = texts / (time.perf_counter() - begin)
    rates["ranx"], ranx_comb = ranx_rates(arguments.data / str(small), arguments.ranx_texts)

    lines += ["| | texts/s | of the bare kernel | times ranx |", "|---|---|---|---|"]
    for name in (
        *("bare kernel", "`arrays`", "`arrays`, all metrics", "`arrays`, everything", "`arrays`, with tests"),
        *("`arrays`, cold", "`windows`", "ranx"),
    ):
        share = f"{rates[name] / rates['bare kernel']:.0%}" if name != "ranx" else ""
        lines.append(f"| {name} | {rates[name]:,.1f} | {share} | {rates[name] / rates['ranx']:,.0f} |")
    lines += [
        "",
        f"Tests leave {rates['`arrays`, with tests'] / rates['`arrays`']:.0%} of the throughput of `arrays`.",
        f"All {len(config_of(every).evaluate.measures)} measures take "
        f"{rates['`arrays`'] / rates['`arrays`, all metrics'] - 1:.0%} longer than the paper's six.",
        f"Everything: {len(everything.grid.grid(RETRIEVERS).cells)} cells instead of 60, "
        f"{rates['`arrays`'] / rates['`arrays`, everything']:.1f} times their time.",
        f"Five normalisations x six Comb methods: `arrays` {comb_rate:,.0f} texts/s, ranx {ranx_comb:,.1f}: "
        f"{comb_rate / ranx_comb:,.0f} times.",
        "",
        "| texts | seconds (warm) | microseconds per further text | peak memory of a Python worker |",
        "|---|---|---|---|",
    ]
    before: int | None = None
    for count, taken in sorted(seconds.items()):
        marginal = "" if before is None else f"{(taken - seconds[before]) / (count - before) * 1e6:.1f}"
        lines.append(f"| {count:,} | {taken:.1f} | {marginal} | {peaks[count] / 2**20:,.0f} MiB |")
        before = count
    lines += [
        "",
        f"Compiling the kernel: {compile_seconds[0]:.1f} s once; loading it from the cache on disk: "
        f"{compile_seconds[1]:.1f} s.",
        f"`windows` and `cold` were measured at {small:,} texts, ranx at {arguments.ranx_texts}.",
    ]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "grid.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def config_of(settings: dict[str, object]) -> Config:
    return load_config(None, {"evaluate.details": False, "spark.master": f"local[{CORES}]", **settings})


def timed(session: SparkSession, config: Config) -> float:
    begin = time.perf_counter()
    evaluate.run(session, config)
    return time.perf_counter() - begin


def evaluation_of(session: SparkSession, config: Config) -> EvaluationPlan:
    layout = load_lists(SparkTables(session), Sources.of(config.inputs), judged=True).layout
    cells = tuple(config.grid.grid(layout.retrievers).cells)
    return EvaluationPlan(layout, cells, layout.views, "group", tuple(config.evaluate.measures))


def compilation(fresh: bool) -> float:
    """Seconds from imported code to a first result, in a process of its own."""
    code = (
        "import time, tests.lists as t, numpy as np; from fusion.grid import Grid\n"
        "from fusion.kernel.hits import find_hits\n"
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
