"""The texts most helped and most hurt: which they are, in which order, and what is kept of them."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import xmtc_fusion as xf
from fusion.cells import Cell
from fusion.labels import ALL
from fusion.metrics import Metric, decisive
from fusion.statistics.watchers import NOBODY, Extremes
from jobs.reporting.dataset import DatasetReport
from tests.lists import random_relevant, random_texts, whole
from udfs.examples import ExampleTexts, Kept, from_bytes, merged, to_bytes
from udfs.list_arrays import LIST_ROW
from udfs.lists import JUDGEMENT, LabelGroups, Layout
from udfs.problems import Problems
from udfs.texts import list_rows, read_texts

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
    found = DatasetReport(result._result, settings.test, settings.alpha).recommendation
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
    monkeypatch.setattr("jobs.engines.local.FEWEST_KEYS", 7)
    monkeypatch.setattr("jobs.engines.local.ROWS_AT_ONCE", 14)
    monkeypatch.setattr("jobs.engines.local.LocalEngine.workers", 3)
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
    rows = pa.table(
        {
            "text_id": np.repeat(ids, 3).tolist(),
            "fold": pa.array([0] * 120, pa.int32()),
            "list": pa.array([0, 1, JUDGEMENT] * 40, pa.int32()),
            "label_ids": pa.array([[n, n + 1, n + 2] for n in range(120)], pa.list_(pa.int32())),
            "scores": [[3.0, 2.0, 1.0], [0.9, 0.8, 0.7], [0.0, 0.0, 0.0]] * 40,
        }
    )
    layout = Layout(("a", "b"), (ALL,))

    def kept(parts: list[np.ndarray]) -> Kept:
        packed = []
        for worker in (parts[::2], parts[1::2]):
            texts = ExampleTexts(layout, (ALL,), 3, 2, Metric("ndcg", 10), keep=3)
            for part in filter(len, worker):
                batch = read_texts(rows.take((3 * part[:, None] + np.arange(3)).ravel()), layout, Problems())
                assert batch is not None
                texts.begin(batch)
                watch = texts.watch(ALL)
                watch.watcher.add(figures[:, part], watch.numbers)
                texts.end()
            packed += texts.packed()
        return merged(packed, 3)

    whole_batch = kept([np.arange(40), np.empty(0, np.int64)])
    shuffled = kept(np.array_split(rng.permutation(40), 6))
    assert shuffled.texts.equals(whole_batch.texts)
    assert all(from_bytes(to_bytes(whole_batch))[n].equals(whole_batch[n]) for n in (0, 1))
    # The lists that come with them are theirs, as they were.
    wanted = rows.filter(pc.is_in(rows["text_id"], value_set=pc.unique(whole_batch.texts["text_id"])))
    order = [("text_id", "ascending"), ("list", "ascending")]
    assert 0 < len(wanted) < len(rows)
    assert shuffled.lists.sort_by(order).equals(wanted.sort_by(order))


def test_list_rows_make_the_same_texts_again() -> None:
    """Two folds, grades, lengths and lists that are not best first."""
    groups = LabelGroups(("tail", "head"), pa.array(["x", "y", "7"]), np.array([0, 1, 1], np.int8))
    layout = Layout(("a", "b"), ("tail", "head"), groups, relevant_from=2.0)
    lists = [
        ("t", 1, 0, ["x"], [0.25]),
        ("t", 1, 3, ["7", "y"], [1.0, 2.0]),
        ("t", 1, JUDGEMENT - 3, ["x", "y"], [1.0, 3.0]),
        ("t", 2, 1, ["7"], [4.0]),
        ("t", 2, JUDGEMENT, ["7"], [2.0]),
        ("u", 2, 2, ["x"], [0.5]),
        ("u", 2, JUDGEMENT, ["x"], [2.0]),
    ]
    rows = pa.table(dict(zip(LIST_ROW, map(list, zip(*lists, strict=True)), strict=True)))
    rows = rows.set_column(1, "fold", rows["fold"].cast(pa.int32())).set_column(2, "list", rows["list"].cast("int32"))
    batch = read_texts(rows, layout, Problems())
    assert batch is not None
    again = read_texts(list_rows(batch, layout, np.array([0, 1])).sort_by("text_id"), layout, Problems())
    assert again is not None
    assert again.text_id.to_pylist() == ["t", "t"] and again.fold.tolist() == [1, 2]
    assert again.length.tolist() == [2, -1]
    for view, text in product(layout.views, (0, 1)):
        mine, other = (block.some(slice(text, text + 1)) for block in (again.texts, batch.texts))
        assert mine.relevant_counts(("tail", "head"), view) == other.relevant_counts(("tail", "head"), view)
        for r in range(2):
            (a, of_a), (b, of_b) = ((block.lists(view), made) for block, made in ((mine, again), (other, batch)))
            ends = [slice(given.start[0, r], given.stop[0, r]) for given in (a, b)]
            assert of_a.decode(a.label[ends[0]]) == of_b.decode(b.label[ends[1]])
            assert a.score[ends[0]].tolist() == b.score[ends[1]].tolist()
    assert again.texts.judged is not None
    assert again.texts.judged.grade[again.texts.judged.labels.start[0] :][:2].tolist() == [1.0, 3.0]


def test_decisive_metric() -> None:
    metrics = [Metric("precision", 20), Metric("ndcg", 5), Metric("ndcg", 10)]
    assert decisive(metrics) == Metric("ndcg", 10)
    assert decisive(metrics[:1]) == Metric("precision", 20)
