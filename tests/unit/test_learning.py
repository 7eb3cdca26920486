"""Trained fusions: what is counted, that the kernel applies it as the formulas say, and that nothing leaks."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

import xmtc_fusion as xf
from fusion import FUSIONS
from fusion.cells import ANY_FOLD
from fusion.grid.grid import Grid, parse_cells
from fusion.grid.trained import PRECISION_UNIT, Evidence, Learned, ListHits, count_list_hits
from fusion.kernel.pools import merge_lists
from fusion.labels import ALL
from tests import reference
from tests.lists import best_first, no_relevant, random_relevant, random_texts, to_texts, whole
from udfs.evidence import set_apart

TRAINED = [entry.name for entry in FUSIONS if entry.parameters.trained]
CELLS = [f"zmuv+{name}" for name in TRAINED] + ["zmuv+probfuse(segments=3)", "zmuv+slidefuse(w=1)"]
TEXTS = 60
MADE = random_texts(np.random.default_rng(31), TEXTS, retrievers=3, ties=False)
RELEVANT = random_relevant(np.random.default_rng(32), TEXTS)


def evidence_of(texts, relevant: list[set[int]], name: str) -> Evidence:
    """By the definitions, list by list."""
    sizes, hits, precision = np.zeros(200, np.int64), np.zeros(20_000, np.int64), 0
    for text, wanted in zip(texts, relevant, strict=True):
        labels = [label for label, _ in best_first(whole(text)[name])]
        if not labels:
            continue
        sizes[len(labels)] += 1
        places = [place for place, label in enumerate(labels) if label in wanted]
        for place in places:
            hits[len(labels) * (len(labels) - 1) // 2 + place] += 1
        average = sum((n + 1) / (place + 1) for n, place in enumerate(places)) / len(wanted)
        precision += round(average / PRECISION_UNIT)
    return Evidence(len(texts), sizes, hits, precision)


def counted(texts, relevant: list[set[int]]) -> list[Evidence]:
    block = to_texts(texts, relevant)
    hits = count_list_hits(block.lists(ALL), block.relevant, np.ones(len(texts), np.bool_))
    return [Evidence(*(getattr(hits, name)[r] for name in ListHits._fields)) for r in range(len(texts[0]))]


def test_counts_are_those_of_the_definitions() -> None:
    for name, found in zip(MADE[0], counted(MADE, RELEVANT), strict=True):
        expected = evidence_of(MADE, RELEVANT, name)
        longest = len(found.sizes)
        np.testing.assert_array_equal(found.sizes, expected.sizes[:longest])
        np.testing.assert_array_equal(found.hits, expected.hits[: len(found.hits)])
        assert not expected.sizes[longest:].any() and abs(found.precision - expected.precision) <= TEXTS
        np.testing.assert_array_equal(found.hits_at, expected.hits_at[: len(found.hits_at)])
        assert found.queries == TEXTS and 0 < found.mean_average_precision < 1


@pytest.mark.parametrize("subset", ["", "bm25+splade: "])
def test_kernel_equals_the_reference(subset: str) -> None:
    """With other evidence in each fold, and lists that are longer than any that evidence was counted on."""
    halves = [counted(MADE[:20], RELEVANT[:20]), counted(MADE[20:40], RELEVANT[20:40])]
    learned = pickle.loads(pickle.dumps({ALL: Learned({0: halves[0], 3: halves[1]})}))
    longer = random_texts(np.random.default_rng(33), 20, 3, longest=29)
    cells = [cell for name in CELLS for cell in parse_cells(subset + name)]
    grid = Grid(cells, list(MADE[0]), learned=learned)
    assert grid.trained == list(
        dict.fromkeys(cell.fusion for cell in sorted(cells, key=lambda c: c.fusion == "segfuse"))
    )
    block = to_texts(longer, [set()] * 20)
    pools = merge_lists(block.lists(ALL), no_relevant(20), keep_all=True)
    pools.view, pools.fold = ALL, np.array([0, 3] * 10)
    for column, fused in grid.fused(pools):
        (cell,) = [cell for cell in cells if grid.column_of[cell] == column]
        for p, text in enumerate(longer):
            known = dict(zip(MADE[0], halves[p % 2], strict=True))
            lists = {name: of for name, of in whole(text).items() if name in (cell.subset or known)}
            expected = dict(reference.fuse(lists, cell.scaling, cell.fusion, evidence=known))
            inside = slice(pools.offset[p], pools.offset[p + 1])
            scores = [expected.get(label, np.nan) for label in pools.label[inside].tolist()]
            np.testing.assert_allclose(fused[inside], scores, rtol=1e-6, atol=1e-7, err_msg=str(cell))


RUNS = {
    name: {f"t{q}": {f"l{x}": s for x, s in whole(text)[name].items()} for q, text in enumerate(MADE)}
    for name in MADE[0]
}
JUDGEMENTS = {f"t{q}": [f"l{x}" for x in sorted(labels)] for q, labels in enumerate(RELEVANT)}
SHARE = {"grid.train_share": 0.4, "evaluate.randomizations": 1000}
APART = set_apart(pa.array(list(JUDGEMENTS)), 0.4)


def test_a_share_of_the_texts_is_set_apart() -> None:
    assert 10 < APART.sum() < 40
    result = xf.evaluate(JUDGEMENTS, RUNS, cells=["zmuv+combsum", *CELLS], metrics="ndcg@5", settings=SHARE)
    assert set(result.metrics["queries"].to_pylist()) == {int((~APART).sum())}
    rest = {text: labels for (text, labels), apart in zip(JUDGEMENTS.items(), APART, strict=True) if not apart}
    plain = xf.evaluate(
        rest, RUNS, cells=["zmuv+combsum"], metrics="ndcg@5", settings={"evaluate.randomizations": 1000}
    )
    figures = {row["fusion"]: row["value"] for row in result.metrics.to_pylist()}
    assert {row["fusion"]: row["value"] for row in plain.metrics.to_pylist()}.items() <= figures.items()


def test_so_few_texts_that_a_batch_keeps_none() -> None:
    """Of six texts most are set apart, so that some batches have none left to count."""
    judgements = {text: [f"l{text}"] for text in range(6)}
    run = {text: {f"l{text}": 2.0, "l0": 1.0} for text in range(6)}
    evaluation = xf.evaluate(
        judgements, {"a": run, "b": run}, cells=["mapfuse"], metrics=["ndcg@3"], settings={"grid.train_share": 0.5}
    )
    assert 0 < evaluation.input_counts["judged_texts"] < 6
    assert "mapfuse" in evaluation.table()


def test_the_answers_of_evaluated_texts_are_never_read() -> None:
    """Whatever they are, the same is learned, hence the same is fused."""
    rng = np.random.default_rng(1)
    permuted = dict(JUDGEMENTS)
    evaluated = [text for text, apart in zip(JUDGEMENTS, APART, strict=True) if not apart]
    for text, other in zip(evaluated, rng.permutation(evaluated).tolist(), strict=True):
        permuted[text] = JUDGEMENTS[other]
    for cell in CELLS:
        tables = [
            xf.explain(RUNS, evaluated[0], cell, judged, settings={"grid.train_share": 0.4}).table.drop_columns(
                "relevant"
            )
            for judged in (JUDGEMENTS, permuted)
        ]
        assert tables[0] == tables[1] and any(tables[0]["fused"].to_pylist())


def test_validation_texts_of_each_fold() -> None:
    """A text that is validation in fold 0 and test in fold 1, and the other way round."""
    texts = list(JUDGEMENTS)
    roles = [(fold, text, "test" if q % 2 == fold else "validation") for q, text in enumerate(texts) for fold in (0, 1)]
    folds = pa.table(dict(zip(("fold", "text_id", "role"), map(list, zip(*roles, strict=True)), strict=True)))
    result = xf.evaluate(JUDGEMENTS, RUNS, cells=CELLS, metrics="ndcg@5", folds=folds)
    assert sorted(set(result.metrics["fold"].to_pylist())) == [0, 1]
    odd = {"t1": JUDGEMENTS["t1"]}
    learned = {name: counted(MADE[first::2], RELEVANT[first::2]) for first, name in ((0, "even"), (1, "odd"))}
    # Text 1 is tested in fold 1, which learned from the texts with even numbers.
    lists = {name: {f"l{x}": s for x, s in whole(MADE[1])[name].items()} for name in MADE[1]}
    for side, same in (("even", True), ("odd", False)):
        known = dict(zip(MADE[0], learned[side], strict=True))
        expected = reference.fuse(lists, "zmuv", "posfuse", evidence=known)
        shown = xf.explain(RUNS, "t1", "zmuv+posfuse", JUDGEMENTS, folds=folds).table
        found = dict(zip(shown["label_id"].to_pylist(), shown["fused"].to_pylist(), strict=True))
        close = all(score == pytest.approx(found[label], abs=1e-6) for label, score in expected)
        assert close == same
    assert odd


@pytest.mark.parametrize(
    ("settings", "folds", "judged", "words"),
    [
        ({}, None, True, "grid.train_share"),
        (SHARE, None, False, "learns from judged texts"),
        ({}, {"t1": 0, "t2": 1}, True, "the column 'role', which marks the validation texts, is missing"),
        ({"grid.train_share": 1e-9}, None, True, "nothing can be learned"),
    ],
)
def test_what_cannot_be_learned_is_refused(settings, folds, judged: bool, words: str) -> None:
    with pytest.raises((xf.ConfigError, xf.InputError), match=words):
        xf.explain(RUNS, "t1", "posfuse", JUDGEMENTS if judged else None, folds=folds, settings=settings)


def test_evidence_of_all_folds() -> None:
    learned = Learned({ANY_FOLD: counted(MADE, RELEVANT)})
    assert learned.of(0) is learned.of(7)
