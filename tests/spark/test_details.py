"""The tables beside the metrics, against the texts they were counted from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from scipy import stats
from statsmodels.stats.multitest import multipletests

from fusion.labels import ALL, frequency_bands
from fusion.statistics.coverage import BANDS, FEWEST_PAIRS, joined_bands
from jobs.evaluation import evaluate
from jobs.evaluation.schemas import DETAILS
from jobs.settings.config import load_config
from tests.lists import random_relevant, random_texts, write_tables

METRICS = ["ndcg@5", "precision@3"]
TEXTS = 150


@pytest.fixture(scope="module")
def relevant() -> list[set[int]]:
    return random_relevant(np.random.default_rng(6), TEXTS)


@pytest.fixture(scope="module")
def settings(relevant: list[set[int]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    texts = random_texts(np.random.default_rng(5), TEXTS, ties=False)
    # A label that only texts of one fold carry: there it has no training text.
    relevant[0].add(49)
    relevant[3].add(49)
    for text in (*range(1, TEXTS, 3), *range(2, TEXTS, 3)):
        relevant[text].discard(49)
    folder = tmp_path_factory.mktemp("tables")
    inputs = write_tables(folder, texts, relevant, folds=3)
    judgements = pq.read_table(folder / "judgements.parquet")
    words = pa.array([None if text % 10 == 9 else text * 8 for text in range(TEXTS)], pa.int32())
    pq.write_table(judgements.append_column("words", words), folder / "judgements.parquet")
    roles = [
        {"fold": fold, "text_id": text, "role": "test" if text % 3 == fold else "train" if text % 7 else "validation"}
        for fold in range(3)
        for text in range(TEXTS)
    ]
    pq.write_table(pa.Table.from_pylist(roles), folder / "folds.parquet")
    return {
        **inputs,
        "grid.engine": "arrays",
        "evaluate.metrics": METRICS,
        "grid.cells": ["zmuv+combmnz", "zmuv+isr", "rank+isr"],
    }


def test_comparisons_equal_scipys_on_the_texts(
    spark: SparkSession, settings: dict[str, object], relevant: list[set[int]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    more = {"evaluate.per_query": True, "output.path": str(out)}
    evaluate.run(spark, load_config(None, {**settings, **more}))
    texts = pq.read_table(out / "query_metrics.parquet").to_pandas()
    compared = pq.read_table(out / "comparisons.parquet").to_pandas()
    # nDCG in two groups with two ideals and one with one, P in three groups; four others against each of the best and
    # the two retrievers.
    assert len(compared) == (5 + 3) * (3 * 4)
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
    assert checked > 30
    check_pairs(pq.read_table(out / "pairs.parquet").to_pandas(), compared)
    check_text_sizes(pq.read_table(out / "text_sizes.parquet").to_pandas(), by_cell, relevant)


def check_pairs(pairs: pd.DataFrame, compared: pd.DataFrame) -> None:
    """Any two of the four distinct columns, once; those that are also compared with the best have the same tests."""
    cells = pairs[["normalization", "fusion", "against_normalization", "against_fusion"]].drop_duplicates()
    assert [tuple(row) for row in cells.itertuples(index=False)] == [
        ("zmuv", "combmnz", "zmuv", "isr"),
        ("zmuv", "combmnz", "single", "bm25"),
        ("zmuv", "combmnz", "single", "dense"),
        ("zmuv", "isr", "single", "bm25"),
        ("zmuv", "isr", "single", "dense"),
        ("single", "bm25", "single", "dense"),
    ]
    assert set(pairs["ideal"]) == {"all"}
    assert len(pairs) == 6 * 3 * len(METRICS)
    key = list(pairs.columns[:9])
    both = pairs.merge(compared, on=key, suffixes=("", "_compared"))
    assert len(both) >= 5 * 3 * len(METRICS)
    for name in ("difference", "deviation", "p", "low", "high", "p_randomization"):
        assert (both[name] == both[f"{name}_compared"]).all(), name


def check_text_sizes(
    sizes: pd.DataFrame, by_cell: dict[tuple[str, ...], pd.DataFrame], relevant: list[set[int]]
) -> None:
    """Each cell against each retriever over the texts of a size, by their number of relevant labels."""
    texts = by_cell["single", "bm25", ALL]
    number = pd.Series({text: len(labels) for text, labels in enumerate(relevant)})
    number = number.loc[texts.index]
    assert set(sizes["fewest"]) <= {1, 2, 3, 6, 11}
    everyone = sizes.query("label_group == 'all' and fusion == 'combmnz' and retriever == 'dense' and metric == 'ndcg'")
    assert everyone["queries"].sum() == (number > 0).sum()
    for row in sizes.itertuples():
        most = np.inf if np.isnan(row.most) else row.most
        name = f"{row.metric}@{row.k}"
        a = by_cell[row.normalization, row.fusion, row.label_group][name]
        a = a[(number.loc[a.index] >= row.fewest) & (number.loc[a.index] <= most)]
        b = by_cell["single", row.retriever, row.label_group][name].loc[a.index]
        assert row.queries == len(a)
        assert (row.value, row.retriever_value) == pytest.approx((a.mean(), b.mean()), abs=4e-6)
        if len(a) > 2 and (a != b).sum() > 2:
            assert row.p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-2)


@pytest.fixture(scope="module")
def result(spark: SparkSession, settings: dict[str, object]) -> evaluate.Result:
    return evaluate.run(spark, load_config(None, settings))


def test_frequency_bands(result: evaluate.Result, relevant: list[set[int]]) -> None:
    counts = np.bincount([label for labels in relevant for label in labels], minlength=50)
    bands = joined_bands(frequency_bands(np.arange(50), counts, BANDS), counts)
    rows = result.details["bands"].to_pylist()
    of_cell = [row for row in rows if row["label_group"] == ALL and row["fusion"] == "combmnz" and row["k"] == 3]
    everything = [row for row in of_cell if row["band"]]
    (unseen,) = [row for row in of_cell if not row["band"]]
    without = {
        (text, label)
        for text, labels in enumerate(relevant)
        for label in labels
        if not any(label in relevant[n] for n in range(TEXTS) if n % 3 != text % 3 and n % 7)
    }
    assert len(without) >= 2 and unseen["pairs"] == len(without) == result.input_counts["pairs_without_training_text"]
    assert [row["band"] for row in everything] == list(range(1, bands.max() + 2))
    for row in everything:
        mine = counts[bands == row["band"] - 1]
        labels = set(np.flatnonzero(bands == row["band"] - 1).tolist())
        pairs = mine.sum() - sum(label in labels for _, label in without)
        assert (row["labels"], row["pairs"]) == (len(mine), pairs) and row["pairs"] >= FEWEST_PAIRS
        assert (row["rarest"], row["commonest"]) == (mine.min(), mine.max())
    # What the bands hold adds up to the hits that precision counts.
    hits = sum(row["value"] * row["pairs"] for row in of_cell)
    figures = result.metrics.to_pandas().query("label_group == 'all' and metric == 'precision' and fusion == 'combmnz'")
    assert hits == pytest.approx((figures["value"] * figures["queries"]).sum() * 3)


@pytest.mark.drill
def test_bands_against_the_single_retrievers(result: evaluate.Result) -> None:
    """Texts with more and fewer labels of a band, and their test; intervals and Holm's correction are scipy's."""
    shares = {
        (row["label_group"], row["band"], row["k"], row["normalization"], row["fusion"]): row
        for row in result.details["bands"].to_pylist()
    }
    tests = result.details["band_tests"].to_pandas()
    # Three cells against two retrievers at two cut-offs, in each of the bands that have pairs.
    bands = {key[:2] for key in shares}
    assert len(tests) == 3 * 2 * 2 * len(bands)
    assert (tests["more"] + tests["fewer"]).max() > 5
    for row in tests.itertuples():
        cell = shares[row.label_group, row.band, row.k, row.normalization, row.fusion]
        single = shares[row.label_group, row.band, row.k, "single", row.retriever]
        gain = round((cell["value"] - single["value"]) * row.pairs)
        assert (gain > 0) <= (row.more > 0) and (gain < 0) <= (row.fewer > 0)
        if row.more + row.fewer and abs(gain) == abs(row.more - row.fewer) == row.more + row.fewer:
            assert row.p == pytest.approx(2 * 0.5 ** (row.more + row.fewer))
        interval = stats.binomtest(round(cell["value"] * row.pairs), row.pairs).proportion_ci(method="wilson")
        assert (cell["low"], cell["high"]) == pytest.approx(interval)
    # Labels without a training text are a matter of their own, and not one of the bands.
    for _, family in tests[tests["band"] > 0].groupby(["label_group", "k", "normalization", "fusion", "retriever"]):
        np.testing.assert_allclose(family["p_holm"], multipletests(family["p"], method="holm")[1])


@pytest.mark.parametrize(
    "more",
    [
        {"spark.partitions": 1},
        pytest.param({"spark.partitions": 64}, marks=pytest.mark.drill),
        {"grid.engine": "windows"},
        {"grid.engine": "local"},
    ],
)
def test_details_do_not_depend_on_how_texts_are_spread(
    spark: SparkSession, settings: dict[str, object], result: evaluate.Result, more: dict[str, object]
) -> None:
    found = evaluate.run(spark, load_config(None, {**settings, **more})).details
    # What retrievers add to each other is a question about subsets, and nothing is tuned.
    assert list(found) == [name for name in DETAILS if name not in ("additions", "choices", "learning_curve")]
    for name, table in result.details.items():
        assert table.equals(found[name]), name
        assert table.schema == DETAILS[name]


def test_details_can_be_left_out(spark: SparkSession, settings: dict[str, object]) -> None:
    assert evaluate.run(spark, load_config(None, {**settings, "evaluate.details": False})).details == {}
    without = evaluate.run(spark, load_config(None, {**settings, "evaluate.randomizations": 0}))
    assert without.details["comparisons"]["p_randomization"].null_count == len(without.details["comparisons"])
