"""Short and long texts: each cell beside each retriever, where the judgements say how many words a text has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

from fusion.statistics.watchers import FEWEST_WORDS, UNKNOWN, LengthSums
from jobs.evaluation import evaluate
from jobs.evaluation.result import read_results
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.losses import loss_lines, slice_table
from jobs.settings.config import load_config
from tests.lists import random_relevant, random_texts, write_tables

TEXTS = 160
WORDS = [None if text % 9 == 8 else (text % 4) * 30 for text in range(TEXTS)]
"""0, 30, 60 or 90 words; of some texts the number is not known."""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, object]:
    rng = np.random.default_rng(3)
    texts, relevant = random_texts(rng, TEXTS, ties=False), random_relevant(rng, TEXTS)
    inputs = write_tables(tmp_path, texts, relevant)
    judgements = pq.read_table(tmp_path / "judgements.parquet")
    with_words = judgements.append_column("words", pa.array(WORDS, pa.int64()))
    pq.write_table(with_words, tmp_path / "judgements.parquet")
    chosen = {"evaluate.metrics": ["ndcg@5", "precision@3"], "grid.cells": ["zmuv+combmnz", "rank+isr"]}
    return {**inputs, **chosen, "grid.engine": "local", "evaluate.randomizations": 0}


def test_sums_are_those_of_the_texts(settings: dict[str, object]) -> None:
    result = evaluate.compute(None, load_config(None, {**settings, "evaluate.per_query": True}))
    texts = result.queries.to_pandas()  # type: ignore[union-attr]
    rows = result.details["text_lengths"].to_pandas()
    assert set(zip(rows["metric"], rows["k"], rows["ideal"], strict=True)) == {("ndcg", 5, "all")}
    assert [(row.fewest, row.most) for row in rows[:: 2 * 2].head(3).itertuples()] == [(0, 20), (21, 50), (51, 100)]
    bands = {"tail": 3, "head": 3, "all": 3}
    assert len(rows) == sum(bands.values()) * 2 * 2
    by_cell = {
        key: table.set_index("text_id")["ndcg@5"]
        for key, table in texts.groupby(["normalization", "fusion", "label_group"])
    }
    for row in rows.itertuples():
        a = by_cell[row.normalization, row.fusion, row.label_group]
        known = [text for text in a.index if WORDS[text] is not None and row.fewest <= WORDS[text] <= row.most]
        a, b = a.loc[known], by_cell["single", row.retriever, row.label_group].loc[known]
        assert row.queries == len(known)
        assert (row.value, row.retriever_value) == pytest.approx((a.mean(), b.mean()), abs=4e-6)
        assert row.p == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-2)


def test_without_numbers_of_words_nothing_is_said(settings: dict[str, object], tmp_path: Path) -> None:
    judgements = pq.read_table(tmp_path / "judgements.parquet")
    pq.write_table(judgements.drop_columns(["words"]), tmp_path / "judgements.parquet")
    assert "text_lengths" not in evaluate.compute(None, load_config(None, settings)).details


def test_the_report_says_on_which_texts_the_fusion_loses(tmp_path: Path) -> None:
    """bm25 has the relevant label of short texts first and none of long ones, dense the other way round, with more
    weight: a fusion is better than either, and loses to bm25 on short texts."""
    rows = []
    for text in range(400):
        short, (first, second) = text % 4 == 0, ((1, 2) if text % 2 else (2, 1))
        labels = [first, second] if short else [second, first]
        rows.append({"retriever": "bm25", "text_id": text, "label_ids": labels, "scores": [1.0, 0.9]})
        labels = [second, first] if short else [first, second]
        rows.append({"retriever": "dense", "text_id": text, "label_ids": labels, "scores": [1.0, 0.0]})
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "runs.parquet")
    judged = [
        {"text_id": text, "label_ids": [1 if text % 2 else 2], "words": 7 if text % 4 == 0 else 700}
        for text in range(400)
    ]
    pq.write_table(pa.Table.from_pylist(judged), tmp_path / "judged.parquet")
    chosen = {
        "inputs.candidates": str(tmp_path / "runs.parquet"),
        "inputs.judgements": str(tmp_path / "judged.parquet"),
        "grid.cells": ["none+combsum"],
        "evaluate.metrics": ["ndcg@5"],
        "output.path": str(tmp_path / "out"),
    }
    evaluate.run(None, load_config(None, chosen))
    dataset = DatasetReport(read_results([str(tmp_path / "out")])[0], "folds", 0.05)
    lines = [line for line in loss_lines(dataset) if "words" in line]
    assert lines == [
        "all labels: loses to bm25 on texts with up to 20 words: 63.1 against 100.0 nDCG@5 (100 texts, p <0.001)"
    ]
    assert dataset.recommendation is not None
    table = slice_table(dataset, dataset.recommendation.standings[0], "text words")
    assert table is not None and table.header[0] == ("words per text",)
    assert [line[0].text for line in table.blocks[0]] == ["up to 20", "501\N{EN DASH}1,000"] * 2


def test_texts_of_unknown_length_are_left_out() -> None:
    sums = LengthSums(1, 1, 0.5)
    bands = np.array([UNKNOWN, 0, 0, len(FEWEST_WORDS) - 1])
    sums.count(bands)
    sums.add(np.array([[9, 2, 4, 1], [9, 1, 0, 1]]), bands)
    assert sums.queries.tolist() == [2, 0, 0, 0, 0, 0, 1]
    assert (sums.mean(0, 0), sums.mean(0, 1)) == (1.5, 0.25)
    again = LengthSums(1, 1, 0.5)
    again.unpack(np.arange(len(sums.packed())), sums.packed())
    column = np.array([0])
    assert again.compare(0, column, 1) == sums.compare(0, column, 1)
    assert sums.compare(0, column, 1).p == pytest.approx([stats.ttest_rel([1, 2], [0.5, 0]).pvalue])
