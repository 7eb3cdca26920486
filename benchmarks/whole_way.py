"""From texts to a report: what `run` costs in this process and on Spark, and whether both write the same bytes.

    python -m benchmarks.whole_way [--texts 300 1500 10076] [--eurlex57k FOLDER] [--work FOLDER] [--only SECTION]

bm25 and static in five folds. `small`: parts of the demo in this process. `bytes`: all tables, token ids, models, lists
and results in this process and on Spark with 1 and 8 partitions, of the demo and of 5,000 texts of EURLEX57K. `large`:
EURLEX57K whole, on both engines. FOLDER holds documents.parquet and labels.parquet (see conf/datasets/eurlex57k.yaml).
Seconds are of a whole process, with compiled code on disk; memory is the sum over its processes. Writes
benchmarks/results/whole-way-*.md.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq

from benchmarks.memory import TreeMemory

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DEMO = ROOT / "conf" / "datasets" / "debtags.yaml"
EURLEX57K = ROOT / "conf" / "datasets" / "eurlex57k.yaml"
SECTIONS = ("small", "bytes", "large")
RETRIEVERS = "retrievers={bm25: {}, static: {}}"
ENGINES = {
    "this process": ("grid.engine=local",),
    "Spark, 1 partition": ("grid.engine=arrays", "spark.partitions=1"),
    "Spark, 8 partitions": ("grid.engine=arrays", "spark.partitions=8"),
}
RUN = """
import sys
from jobs.cli import main
code = main(sys.argv[1:])
print("Spark" if "pyspark" in sys.modules else "no Spark", file=sys.stderr)
sys.exit(code)
"""
"""The command, and whether it has loaded Spark."""


class Cost(NamedTuple):
    """What a process took, with those that it started."""

    seconds: float
    cpu: float
    memory: int
    """The most that all its processes held at one time, in bytes."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, nargs="*", default=[300, 1_500, 10_076])
    parser.add_argument("--eurlex57k", type=Path)
    parser.add_argument("--work", type=Path, default=Path("work") / "whole-way")
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=SECTIONS)
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    if "small" in arguments.only:
        write("small", small(arguments.texts, arguments.work))
    if "bytes" in arguments.only:
        write("bytes", same_bytes(arguments.eurlex57k, arguments.work))
    if "large" in arguments.only and arguments.eurlex57k:
        write("large", large(arguments.eurlex57k, arguments.work))


def write(name: str, rows: Sequence[Sequence[object]]) -> None:
    head, *body = [f"| {' | '.join(map(str, row))} |" for row in rows]
    table = "\n".join([head, "|---" * len(rows[0]) + "|", *body])
    print(table)
    about = f"bm25 and static, 5 folds; {os.cpu_count()} cores. `python -m benchmarks.whole_way`\n\n"
    (RESULTS / f"whole-way-{name}.md").write_text(f"{about}{table}\n", encoding="utf-8")


def small(sizes: Iterable[int], work: Path) -> list[Sequence[object]]:
    with gzip.open(ROOT / "data" / "debtags" / "texts.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = file.readlines()
    rows: list[Sequence[object]] = [("texts", "seconds", "CPU seconds", "peak memory, MiB")]
    for size in sizes:
        texts = work.absolute() / f"{size}.jsonl.gz"
        with gzip.open(texts, "wt", encoding="utf-8") as file:
            file.writelines(lines[:size])
        parts = f"prepare.parts=[{{name: all, texts: {texts}}}]"
        cost = run(DEMO, work / f"demo-{size}", parts, *ENGINES["this process"])
        rows.append((f"{size:,}", *shown(cost)))
    return rows


def same_bytes(eurlex57k: Path | None, work: Path) -> list[Sequence[object]]:
    """One row per kind of output: how many files or tables there are, and whether all engines wrote the same."""
    datasets: list[tuple[str, Path, tuple[str, ...]]] = [("demo", DEMO, ())]
    if eurlex57k:
        few = (f"prepare.folder={eurlex57k.absolute()}", "prepare.limit=5000")
        datasets.append(("5,000 texts of EURLEX57K", EURLEX57K, few))
    rows: list[Sequence[object]] = [("dataset", "output", "tables and files", "rows", *list(ENGINES)[1:])]
    for name, config, settings in datasets:
        outputs = []
        for number, engine in enumerate(ENGINES.values()):
            folder = work / f"{config.stem}-{number}"
            run(config, folder, *settings, *engine)
            outputs.append(contents(folder))
        here, *others = outputs
        for kind in here:
            verdicts = ["same" if other.get(kind) == here[kind] else "different" for other in others]
            rows.append((name, kind, len(here[kind]), f"{sum(size for size, _ in here[kind].values()):,}", *verdicts))
    return rows


def contents(work: Path) -> dict[str, dict[str, tuple[int, str]]]:
    """By kind of output: name -> rows and digest. Tables count as sorted rows."""
    (dataset,) = (folder for folder in work.iterdir() if (folder / "prepared").is_dir())
    found: dict[str, dict[str, tuple[int, str]]] = {}
    for kind in sorted(path.name for path in dataset.iterdir() if path.is_dir() and path.name != "report"):
        names = found.setdefault(kind, {})
        for path in sorted(dataset.joinpath(kind).rglob("*.parquet")):
            if path.is_dir():
                names[plain(path, dataset)] = digest_of_table(path)
            elif not any(parent.suffix == ".parquet" for parent in path.parents):
                names[plain(path, dataset)] = 0, hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted([*dataset.joinpath(kind).rglob("*.npy"), *dataset.joinpath(kind).rglob("*.csv")]):
            if not path.parent.is_symlink() and ".current" not in path.parts:
                names[plain(path, dataset)] = 0, hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def plain(path: Path, below: Path) -> str:
    """The path without the names of versions, which hold a fingerprint of the settings and a random part."""
    return "/".join(part for part in path.relative_to(below).parts if len(part) != len("0" * 16 + "-" + "0" * 8))


def digest_of_table(folder: Path) -> tuple[int, str]:
    table = pq.read_table(folder, partitioning="hive")
    columns = sorted(table.column_names)
    rows = sorted(repr(row) for row in table.select(columns).to_pylist())
    return len(rows), hashlib.sha256("\n".join(rows).encode()).hexdigest()


def large(eurlex57k: Path, work: Path) -> list[Sequence[object]]:
    rows: list[Sequence[object]] = [("engine", "seconds", "CPU seconds", "peak memory, MiB")]
    for name, engine in [("this process", ENGINES["this process"]), ("Spark", ("grid.engine=arrays",))]:
        settings = (f"prepare.folder={eurlex57k.absolute()}", *engine)
        rows.append((name, *shown(run(EURLEX57K, work / "eurlex57k-whole", *settings))))
    return rows


def run(config: Path, work: Path, *settings: str) -> Cost:
    """`run` in a process of its own, from nothing."""
    shutil.rmtree(work, ignore_errors=True)
    command = [sys.executable, "-c", RUN, "run", "--config", str(config), "--work", str(work)]
    for setting in (RETRIEVERS, *settings):
        command += ["--set", setting]
    begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    with TreeMemory(process.pid) as memory:
        _, said = process.communicate()
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{said}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cost = Cost(time.perf_counter() - begin, cpu, memory.peak)
    print(f"{config.stem} {settings}: {cost.seconds:.1f} s, {said.splitlines()[-1]}", flush=True)
    return cost


def shown(cost: Cost) -> tuple[str, str, str]:
    return f"{cost.seconds:.1f}", f"{cost.cpu:.1f}", f"{cost.memory / 2**20:,.0f}"


if __name__ == "__main__":
    main()
