"""The tables beside the metrics, against the texts they were counted from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from scipy import stats

from fusion.label_groups import ALL, frequency_bands
from fusion.statistics.coverage import BANDS
from jobs import evaluate
from jobs.config import load_config
from tests.lists import random_relevant, random_texts, write_tables

MEASURES = ["ndcg@5", "precision@3"]
TEXTS = 150


@pytest.fixture(scope="module")
def relevant() -> list[set[int]]:
    return random_relevant(np.random.default_rng(6), TEXTS)


@pytest.fixture(scope="module")
def settings(relevant: list[set[int]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    texts = random_texts(np.random.default_rng(5), TEXTS, ties=False)
    inputs = write_tables(tmp_path_factory.mktemp("tables"), texts, relevant, folds=3)
    return {**inputs, "evaluate.metrics": MEASURES, "grid.cells": ["zmuv+combmnz", "zmuv+isr", "rank+isr"]}


def test_comparisons_equal_scipys_on_the_texts(
    spark: SparkSession, settings: dict[str, object], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    more = {"evaluate.per_query": True, "output.path": str(out)}
    evaluate.run(spark, load_config(None, {**settings, **more}))
    texts = pq.read_table(out / "query_metrics.parquet").to_pandas()
    compared = pq.read_table(out / "comparisons.parquet").to_pandas()
    # Two groups with two ideals and one with one, two measures; four others against each of the best and the two
    # retrievers.
    assert len(compared) == 5 * 2 * (3 * 4)
    by_cell = {
        key: rows.set_index("text_id") for key, rows in texts.groupby(["normalization", "fusion", "label_group"])
    }
    checked = 0
    for row in compared.itertuples():
        name = f"{row.metric}@{row.k}" + ("_group" if row.ideal == "group" else "")
        a = by_cell[row.normalization, row.fusion, row.label_group][name]
        b = by_cell[row.against_normalization, row.against_fusion, row.label_group][name].loc[a.index]
        assert row.queries == len(a)
        # Figures enter the sums as multiples of 2^-18.
        assert row.difference == pytest.approx((a - b).mean(), abs=4e-6)
        if (a == b).all():
            assert row.p == 1
            continue
        expected = stats.ttest_rel(a, b)
        assert row.statistic == pytest.approx(expected.statistic, rel=1e-3, abs=1e-3)
        assert row.p == pytest.approx(expected.pvalue, rel=1e-2)
        if (a != b).sum() > 30:  # with few differences, few sums are possible, and many are equal
            assert row.p_randomization == pytest.approx(expected.pvalue, abs=0.08)
            checked += 1
    assert checked > 40


def test_frequency_bands(spark: SparkSession, settings: dict[str, object], relevant: list[set[int]]) -> None:
    result = evaluate.run(spark, load_config(None, settings))
    counts = np.bincount([label for labels in relevant for label in labels], minlength=50)
    bands = frequency_bands(np.arange(50), counts, BANDS)
    rows = result.details["bands"].to_pylist()
    everything = [row for row in rows if row["label_group"] == ALL and row["fusion"] == "combmnz" and row["k"] == 3]
    assert [row["band"] for row in everything] == list(range(1, BANDS + 1))
    for row in everything:
        mine = counts[bands == row["band"] - 1]
        assert (row["labels"], row["pairs"]) == (5, mine.sum())
        assert (row["rarest"], row["commonest"]) == (mine.min(), mine.max())
    # What the bands hold adds up to the hits that precision counts.
    hits = sum(row["value"] * row["pairs"] for row in everything)
    figures = result.metrics.to_pandas().query("label_group == 'all' and metric == 'precision' and fusion == 'combmnz'")
    assert hits == pytest.approx((figures["value"] * figures["queries"]).sum() * 3)


@pytest.mark.parametrize("more", [{"spark.partitions": 1}, {"spark.partitions": 16}, {"grid.engine": "windows"}])
def test_details_do_not_depend_on_how_texts_are_spread(
    spark: SparkSession, settings: dict[str, object], more: dict[str, object]
) -> None:
    expected = evaluate.run(spark, load_config(None, settings)).details
    found = evaluate.run(spark, load_config(None, {**settings, **more})).details
    assert list(found) == ["comparisons", "agreement", "bands"]
    for name, table in expected.items():
        assert table.equals(found[name]), name


def test_details_can_be_left_out(spark: SparkSession, settings: dict[str, object]) -> None:
    assert evaluate.run(spark, load_config(None, {**settings, "evaluate.details": False})).details == {}
    without = evaluate.run(spark, load_config(None, {**settings, "evaluate.randomizations": 0}))
    assert without.details["comparisons"]["p_randomization"].null_count == len(without.details["comparisons"])
