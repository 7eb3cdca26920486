"""The whole way from texts to a report as command lines, for tests that walk it in different places.

As a script it is an application: each argument is a command line, and all run in one driver.
"""

from __future__ import annotations

import shlex
import sys
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from jobs.cli import main

ROOT = Path(__file__).parents[1]
OWN = {"config.yaml", "run.json", "index.html", "report.md"}
"""Files that name places and times, and so differ from run to run."""


def steps(folder: Path, more: str = "") -> list[str]:
    """Command lines, each with `more` at its end. The second retriever is BM25 on the labels' words; it has a work
    folder of its own, which shares the prepared tables."""
    first, second = (folder / name / "debtags" for name in ("first", "second"))
    second.mkdir(parents=True)
    (second / "prepared").symlink_to(first / "prepared")
    dataset = f"--config {ROOT}/conf/datasets/debtags.yaml --folder {ROOT}/data/debtags"
    dataset += " --set prepare.limit=300 --set prepare.folds=2"
    lists, prepared = "candidates/bm25/lists.parquet", first / "prepared"
    by_labels = "candidates/bm25-labels/lists.parquet"
    tables = f"--run texts={first}/{lists} --run labels={second}/{by_labels} --qrels {prepared}/samples.parquet"
    tables += f" --label-groups {prepared}/labels.parquet --folds {prepared}/folds.parquet"
    commands = [
        f"prepare {dataset} --work {first.parent}",
        f"retrieve {dataset} --work {first.parent} --retrievers bm25",
        f"retrieve {dataset} --work {second.parent} --retrievers bm25-labels",
        f"evaluate {tables} --output {folder}/results",
        f"fuse {tables} --normalizations zmuv --fusions combmnz --output {folder}/fused",
        f"report --results {folder}/results --output {folder}/report",
    ]
    return [f"{command} {more}" for command in commands]


@cache
def local_results(spark: SparkSession, scratch: Path) -> Path:
    """What the steps give in local mode."""
    folder = scratch / "local"
    for command in steps(folder):
        assert main(shlex.split(command)) == 0, command
    return folder


def assert_same(found: Path, expected: Path) -> None:
    """The same bytes of figures and tables, and the same fused lists."""
    for folder in ("results", "report"):
        assert_same_files(found / folder, expected / folder)
    assert _fused(found) == _fused(expected)


def assert_same_files(found: Path, expected: Path) -> None:
    from tests.results import plain_names

    names = set(plain_names(expected)) - OWN
    assert "metrics.parquet" in names or "unnamed.csv" in names
    assert names == set(plain_names(found)) - OWN
    for name in names:
        assert (found / name).read_bytes() == (expected / name).read_bytes(), name


def _fused(folder: Path) -> list[dict[str, object]]:
    """The rows, in an order of their own: how they are divided into files depends on the partitions."""
    table: pa.Table = pq.read_table(folder / "fused" / "fused.parquet")
    return table.sort_by([(name, "ascending") for name in ("fold", "label_group", "text_id")]).to_pylist()


if __name__ == "__main__":
    for line in sys.argv[1:]:
        if code := main(shlex.split(line)):
            sys.exit(code)
