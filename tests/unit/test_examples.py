"""The texts most helped and most hurt: which they are, in which order, and what is kept of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import xmtc_fusion as xf
from fusion.grid import Cell
from fusion.metrics import Measure, decisive
from fusion.statistics.extremes import NOBODY, Extremes
from jobs.reporting.assemble import assemble
from jobs.results.stored import Results
from tests.lists import random_relevant, random_texts, whole
from udfs.example_texts import ExampleTexts, from_bytes, most_extreme, to_bytes

TEXTS = 120
MADE = random_texts(np.random.default_rng(5), TEXTS)
RELEVANT = random_relevant(np.random.default_rng(6), TEXTS)
RUNS = {name: {f"t{q}": whole(text)[name] for q, text in enumerate(MADE)} for name in MADE[0]}
JUDGEMENTS = {f"t{q}": sorted(labels) for q, labels in enumerate(RELEVANT)}
LABELS = pa.table(
    {
        "label_id": pa.array(range(50), pa.int64()),
        "label_group": ["tail"] * 30 + ["head"] * 20,
        "name": [f"name {label}" for label in range(50)],
    }
)
SAMPLES = pa.table(
    {
        "text_id": list(JUDGEMENTS),
        "label_ids": list(JUDGEMENTS.values()),
        "text": [f"About\n {text}. " + "word " * 200 for text in JUDGEMENTS],
    }
)
CHOSEN = {"normalizations": "zmuv,max,sum", "fusions": "combmnz,combmax,isr", "metrics": "precision@10,ndcg@3,ndcg@5"}


def evaluated(**given: Any) -> xf.Evaluation:
    return xf.evaluate(SAMPLES, RUNS, label_groups=LABELS, per_query=True, **CHOSEN, **given)


@pytest.fixture(scope="module")
def result() -> xf.Evaluation:
    return evaluated()


def recommended(result: xf.Evaluation) -> Cell:
    """By the report's own rule."""
    settings = result.config.report
    stored = Results((), result.config, result.metrics, result.details, result.input_counts, "", "")
    found = assemble(stored, settings.test, settings.alpha).recommendation
    assert found is not None
    return found.cell


def test_examples_are_the_extremes_of_the_figures_per_text(result: xf.Evaluation) -> None:
    """Recomputed from every text's figures: the recommended cell against the best retriever, by nDCG@5. That cell is
    the same for all label groups, and not the best one of each."""
    queries = result.queries.to_pylist()
    cell = recommended(result)
    assert any(result.best("ndcg@5", group).cell != cell for group in ("tail", "head", "all"))
    examples = result.details["examples"].to_pylist()
    assert {row["label_group"] for row in examples} == {"tail", "head", "all"}
    for group, (outcome, sign) in product(("tail", "head", "all"), (("helped", 1), ("hurt", -1))):
        retriever = result.best("ndcg@5", group).retriever
        of_group = [row for row in queries if row["label_group"] == group]
        figures = {(row["normalization"], row["fusion"], row["text_id"]): row["ndcg@5"] for row in of_group}
        change = {
            text: round(sign * (figures[(*cell, text)] - figures["single", retriever, text]), 4)
            for text in {row["text_id"] for row in of_group}
        }
        expected = sorted((text for text in change if change[text] > 0), key=lambda text: (-change[text], text))[:5]
        mine = [row for row in examples if (row["label_group"], row["outcome"]) == (group, outcome)]
        assert [row["text_id"] for row in mine if row["list"] == "fused"] == expected
        for row in mine:
            assert (row["normalization"], row["fusion"]) == cell and row["retriever"] == retriever
            assert (row["metric"], row["k"]) == ("ndcg", 5)
            assert row["value"] == pytest.approx(figures[(*cell, row["text_id"])], abs=1e-5)
            assert row["retriever_value"] == pytest.approx(figures["single", retriever, row["text_id"]], abs=1e-5)


def test_lists_are_those_of_the_text(result: xf.Evaluation) -> None:
    for row in result.details["examples"].to_pylist():
        group, text = row["label_group"], row["text_id"]
        inside = range(30) if group == "tail" else range(30, 50) if group == "head" else range(50)
        labels = [int(label) for label in row["label_ids"]]
        relevant = set(JUDGEMENTS[text]) & set(inside)
        assert row["relevant"] == [label in relevant for label in labels]
        assert row["label_names"] == [f"name {label}" for label in labels]
        assert row["excerpt"].startswith(f"About {text}. word") and len(row["excerpt"]) == 300
        if row["list"] == "relevant":
            assert set(labels) == relevant
        elif row["list"] == "fused":
            cell = f"{row['normalization']}+{row['fusion']}"
            table = xf.explain(RUNS, text, cell, label_group=group, label_groups=LABELS).table.slice(0, 10)
            assert (labels, row["scores"]) == (table["label_id"].to_pylist(), table["fused"].to_pylist())
        else:
            scores = {label: score for label, score in RUNS[row["list"]][text].items() if label in inside}
            ranked = sorted(scores, key=lambda label: (-scores[label], label))[:10]
            assert (labels, row["scores"]) == (ranked, [scores[label] for label in ranked])


def test_the_same_however_texts_are_divided(result: xf.Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("udfs.local.TEXTS_AT_ONCE", 7)
    monkeypatch.setattr("udfs.local._cores", lambda: 3)
    assert evaluated().details["examples"] == result.details["examples"]


def test_number_of_examples_and_none() -> None:
    few = evaluated(settings={"evaluate.examples": 2}).details["examples"]
    assert set(few["place"].to_pylist()) == {1, 2} and len(few) == 3 * 2 * 2 * 4
    assert "examples" not in evaluated(settings={"evaluate.examples": 0}).details
    assert "examples" not in evaluated(settings={"evaluate.details": False}).details


def test_without_names_and_texts() -> None:
    plain = xf.evaluate(JUDGEMENTS, RUNS, **CHOSEN).details["examples"]
    assert set(plain["excerpt"].to_pylist()) == {""} and not any(plain["label_names"].to_pylist())


def test_equal_differences_go_by_number() -> None:
    extremes = Extremes(columns=1, retrievers=1, keep=2)
    extremes.add(np.array([[3, 5, 4, 0], [1, 3, 4, 9]]), np.array([8, 6, 1, 2]))
    extremes.add(np.array([[2], [0]]), np.array([7]))
    assert extremes.text[:, 0, 0].tolist() == [[6, 7], [2, NOBODY]]
    assert extremes.difference[:, 0, 0].tolist() == [[2, 2], [9, 0]]
    assert extremes.figure[:, 0, 0].tolist() == [[5, 2], [0, 0]]


@pytest.mark.parametrize("ids", [list(range(40)), [f"text {n}" for n in range(40)]])
def test_batches_in_any_order_give_the_same_texts(ids: list[Any]) -> None:
    rng = np.random.default_rng(3)
    figures = rng.integers(0, 4, (5, 40))

    def kept(parts: list[np.ndarray]) -> pa.Table:
        packed = []
        for worker in (parts[::2], parts[1::2]):
            texts = ExampleTexts(("all",), 3, 2, Measure("ndcg", 10), keep=3)
            for part in worker:
                texts.begin(pa.array(ids).take(pa.array(part)), np.zeros(len(part), np.int32))
                watch = texts.watch("all")
                watch.watcher.add(figures[:, part], watch.numbers)
                texts.end()
            packed += texts.packed()
        return most_extreme(from_bytes(packed), 3)

    whole_batch = kept([np.arange(40), np.empty(0, np.int64)])
    shuffled = rng.permutation(40)
    assert kept(np.array_split(shuffled, 6)).equals(whole_batch)
    assert from_bytes([to_bytes(whole_batch)]).equals(whole_batch)


def test_decisive_measure() -> None:
    measures = [Measure("precision", 20), Measure("ndcg", 5), Measure("ndcg", 10)]
    assert decisive(measures) == Measure("ndcg", 10)
    assert decisive(measures[:1]) == Measure("precision", 20)
