"""The physical plans: what is shuffled, sorted and exploded, and how often."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from jobs.engines.spark import SparkEngine
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.tables import InputTables
from jobs.settings.config import load_config
from tests.lists import random_relevant, random_texts, write_tables
from udfs.counter import COUNTS, COUNTS_SCHEMA, added_counts, count_hits
from udfs.plan import EvaluationPlan


def plan_of(spark: SparkSession, folder: Path, engine: str) -> list[str]:
    """The nodes of the physical plan of `evaluate`, from the last to the first."""
    rng = np.random.default_rng(0)
    settings = write_tables(folder, random_texts(rng, 20), random_relevant(rng, 20))
    config = load_config(None, {**settings, "grid.engine": engine})
    tables = InputTables(SparkEngine(spark, 4, engine), Sources.of(config.inputs))
    lists = load_lists(tables, judged=True)
    grid = config.grid.grid(lists.layout.retrievers)
    views = lists.layout.views
    evaluation = EvaluationPlan(lists.layout, tuple(grid.cells), views, "group", tuple(config.evaluate.parsed_metrics))
    counted = lists.through(evaluation, count_hits(evaluation), COUNTS_SCHEMA)
    return _nodes(tables.engine.group(counted, COUNTS, added_counts()))


def _nodes(frame: DataFrame) -> list[str]:
    text = frame._jdf.queryExecution().executedPlan().toString()  # type: ignore[operator]
    lines = [re.sub(r"^[\s:+*\-()0-9]*", "", line) for line in text.split("\n")]
    return [line.split(" ")[0].split("(")[0] for line in lines if line]


@pytest.mark.parametrize("engine", ["arrays", "windows"])
def test_one_exchange_before_the_kernel(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    nodes = plan_of(spark, tmp_path, engine)
    # The last step adds up; the one before it is the kernel.
    kernel = nodes.index("MapInArrow" if engine == "arrays" else "FlatMapGroupsInArrow", nodes.index("MapInArrow") + 1)
    after, before = nodes[:kernel], nodes[kernel:]
    assert after.count("Exchange") == 1
    assert before.count("Exchange") == 1
    assert before.count("Sort") == 1


def test_arrays_shuffles_lists(spark: SparkSession, tmp_path: Path) -> None:
    """No list is exploded: one row per list goes through the exchange."""
    nodes = plan_of(spark, tmp_path, "arrays")
    assert "Generate" not in nodes
    assert "Window" not in nodes


def test_windows_takes_two_looks(spark: SparkSession, tmp_path: Path) -> None:
    nodes = plan_of(spark, tmp_path, "windows")
    assert nodes.count("Window") == 2
    exchange = len(nodes) - 1 - nodes[::-1].index("Exchange")
    assert "Generate" in nodes[exchange:]
