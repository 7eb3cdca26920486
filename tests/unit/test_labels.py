"""Labels most helped and most hurt, and labels without a training text, recomputed from the lists."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xmtc_fusion as xf
from fusion.cells import Cell
from fusion.statistics.coverage import FEWEST_PAIRS
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.losses import NO_TRAINING_TEXTS, label_tables, losing_words, loss_line, slice_table, unseen_lines
from jobs.reporting.renderers import report_markdown
from tests.lists import random_relevant, random_texts, whole

TEXTS, K = 150, 5
MADE = random_texts(np.random.default_rng(5), TEXTS)
RUNS = {name: {q: whole(text)[name] for q, text in enumerate(MADE)} for name in MADE[0]}
RELEVANT = random_relevant(np.random.default_rng(6), TEXTS)
# Three labels that only one text each carries, and one that two texts of the same fold carry.
for text, label in ((0, 50), (1, 51), (2, 52), (0, 53), (3, 53)):
    RELEVANT[text].add(label)
    RUNS["dense"][text][label] = 100.0
JUDGEMENTS = {q: sorted(labels) for q, labels in enumerate(RELEVANT)}
LABELS = pa.table(
    {
        "label_id": pa.array(range(54), pa.int64()),
        "label_group": ["tail"] * 30 + ["head"] * 20 + ["tail"] * 4,
        "name": [f"name <{label}>" for label in range(54)],
    }
)


def role(text: int, fold: int) -> str:
    return "test" if text % 3 == fold else "validation" if text % 7 == 0 else "train"


FOLDS = pa.Table.from_pylist(
    [{"fold": fold, "text_id": text, "role": role(text, fold)} for fold in range(3) for text in range(TEXTS)]
)


def evaluated(folds: Any = FOLDS) -> xf.Evaluation:
    chosen: dict[str, Any] = {"normalizations": "zmuv", "fusions": "combmnz", "metrics": f"ndcg@{K},precision@1"}
    return xf.evaluate(JUDGEMENTS, RUNS, label_groups=LABELS, folds=folds, **chosen)


def dataset_of(result: xf.Evaluation) -> DatasetReport:
    return DatasetReport(result._result, "folds", 0.05)


@pytest.fixture(scope="module")
def result() -> xf.Evaluation:
    return evaluated()


def found(text: int, run: str | None) -> set[int]:
    """Relevant labels among the first K of a retriever, or of the fused list of all labels."""
    if run is None:
        ranked = list(FUSED[text])
    else:
        ranked = sorted(RUNS[run][text], key=lambda label: (-RUNS[run][text][label], label))
    return set(ranked[:K]) & RELEVANT[text]


FUSED = xf.fuse(RUNS, "zmuv+combmnz", top=K)


def test_labels_are_those_of_the_lists(result: xf.Evaluation) -> None:
    rows = [row for row in result.details["labels"].to_pylist() if row["label_group"] == "all"]
    for run, (outcome, sign) in ((run, kind) for run in RUNS for kind in (("helped", 1), ("hurt", -1))):
        counts = {
            label: [sum(label in found(text, of) for text in range(TEXTS)) for of in (None, run)] for label in range(54)
        }
        pairs = {label: sum(label in labels for labels in RELEVANT) for label in range(54)}
        order = sorted(counts, key=lambda label: (-sign * (counts[label][0] - counts[label][1]), -pairs[label], label))
        expected = [label for label in order if sign * (counts[label][0] - counts[label][1]) > 0][:10]
        mine = [row for row in rows if (row["retriever"], row["outcome"]) == (run, outcome)]
        assert [int(row["label_id"]) for row in mine] == expected and expected
        for row in mine:
            label = int(row["label_id"])
            assert [row["found"], row["retriever_found"]] == counts[label] and row["pairs"] == pairs[label]
            assert row["name"] == f"name <{label}>" and row["k"] == K
            assert (row["watched"], row["most_unwatched"]) == (54, 0)


def test_only_the_most_frequent_labels_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.plan.WATCHED", 10)
    bounded = evaluated()
    rows = [row for row in bounded.details["labels"].to_pylist() if row["label_group"] == "all"]
    pairs = sorted((sum(label in labels for labels in RELEVANT) for label in range(54)), reverse=True)
    assert all(row["pairs"] >= pairs[9] and row["watched"] == 10 for row in rows)
    assert {row["most_unwatched"] for row in rows} == {pairs[10]}
    captions = [table.caption for _, table in label_tables(dataset_of(bounded))]
    assert any(
        f"Chosen among the 10 most frequent labels; every other one has {pairs[10]} pairs" in c for c in captions
    )


def test_pairs_without_a_training_text(result: xf.Evaluation) -> None:
    unseen = [
        (text, label)
        for text in range(TEXTS)
        for label in RELEVANT[text]
        if not any(label in RELEVANT[other] for other in range(TEXTS) if role(other, text % 3) == "train")
    ]
    assert {(0, 50), (1, 51), (2, 52), (0, 53), (3, 53)} <= set(unseen)
    assert result.input_counts["pairs_without_training_text"] == len(unseen)
    dataset = dataset_of(result)
    assert dataset.unseen is not None
    band = dataset.unseen["all"]
    assert (band.pairs, band.rarest, band.labels) == (len(unseen), 0, len({label for _, label in unseen}))
    for run in ("bm25", "dense", None):
        cell = Cell("single", run) if run else Cell("zmuv", "combmnz")
        assert band.found[cell][K].hits == sum(label in found(text, run) for text, label in unseen)
    assert band.found[Cell("single", "bm25")][K].hits == 0 < band.found[Cell("single", "dense")][K].hits
    # It is a slice of its own, first in the table, and tested.
    assert dataset.recommendation is not None
    standing = dataset.recommendation.standings[0]
    of_bm25, of_dense = sorted((one for one in standing.slices if one.by == "unseen"), key=lambda one: one.single)
    assert of_bm25.single == "bm25" and of_dense.p is not None and of_dense.number == len(unseen)
    table = slice_table(dataset, standing, "frequency")
    assert table is not None and table.blocks[0][0][0].text == "no training text"
    lost = replace(of_dense, outcome="worse")
    assert losing_words([lost]) == "labels without a training text"
    assert loss_line(lost, standing).startswith("dense on labels without a training text: ")
    # These pairs are in no band by frequency.
    pairs = sum(map(len, RELEVANT))
    assert sum(other.pairs for other in dataset.bands["all"]) == pairs - len(unseen)
    assert all(other.pairs >= FEWEST_PAIRS for other in dataset.bands["all"])
    line = unseen_lines(dataset)[0]
    share = f"{100 * len(unseen) / pairs:.1f}%"
    assert line.startswith(
        f"all labels: {len(unseen)} of {pairs} relevant pairs ({share}) have a label without a training"
    )
    assert "bm25 alone 0.0%, dense alone " in line and line in result.table()


def test_training_texts_are_not_known_without_roles() -> None:
    folds = FOLDS.filter(pa.compute.equal(FOLDS["role"], "test")).drop_columns(["role"])
    dataset = dataset_of(evaluated(folds))
    assert dataset.unseen is None and unseen_lines(dataset) == [NO_TRAINING_TEXTS]


def test_markdown_has_both(result: xf.Evaluation) -> None:
    report = result._report
    text = report_markdown(report)
    assert "have a label without a training text" in text
    assert "Labels most helped and most hurt" in text and "name \\<3" in text
