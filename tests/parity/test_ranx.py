"""ranx: the library of the paper's authors. Equal where it is sound; each deviation is asserted as such."""

from __future__ import annotations

import numpy as np
import pytest
from numba.typed import List
from ranx import Qrels, Run, evaluate, fuse
from ranx.fusion.condorcet import _condorcet

from fusion import FUSIONS, NORMALIZATIONS, reference
from fusion.kernel.candidates import Candidates
from fusion.kernel.merging import merge_lists
from fusion.label_groups import ALL
from tests.lists import no_relevant, random_relevant, random_texts, to_lists, whole

METHODS = {
    "combmin": "min",
    "combmax": "max",
    "combmed": "med",
    "combsum": "sum",
    "combanz": "anz",
    "combmnz": "mnz",
    "isr": "isr",
    "log-isr": "log_isr",
    "bordafuse": "bordafuse",
}
NORMS = ["min-max", "max", "sum", "zmuv", "rank", "borda"]
SOUND = [(norm, name) for norm in NORMS for name in METHODS if not (norm == "borda" and FUSIONS[name].reads == "ranks")]
TEXTS = 25


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(1)
    texts = random_texts(rng, 3 * TEXTS, retrievers=3, ties=False)
    # ranx asks that every run has every query.
    full = [text for text in texts if all(whole(text)[name] for name in text)][:TEXTS]
    assert len(full) == TEXTS
    return full, random_relevant(rng, TEXTS)


@pytest.fixture(scope="module")
def runs(made):
    return [
        Run({f"q{q:03d}": {str(x): float(s) for x, s in whole(text)[name].items()} for q, text in enumerate(made[0])})
        for name in made[0][0]
    ]


@pytest.mark.parametrize(("norm", "name"), SOUND)
def test_scores_are_equal(made, runs, norm: str, name: str) -> None:
    """Every label of every text, before our rounding to single precision."""
    theirs = fuse(runs, norm=norm, method=METHODS[name]).to_dict()
    pools = merge_lists(to_lists(made[0], ALL), no_relevant(TEXTS), keep_all=True)
    normalization = None if FUSIONS[name].reads == "ranks" else NORMALIZATIONS[norm]
    ours = FUSIONS[name].kernel(Candidates(pools, normalization))
    for q in range(TEXTS):
        part = slice(pools.offset[q], pools.offset[q + 1])
        expected = {int(label): score for label, score in theirs[f"q{q:03d}"].items()}
        assert pools.label[part].tolist() == sorted(expected)
        np.testing.assert_allclose(ours[part], [expected[x] for x in sorted(expected)], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("norm", "name"), [("min-max", "combsum"), ("zmuv", "combmnz"), ("sum", "combmax")])
def test_metrics_are_equal_where_nothing_ties(made, runs, norm: str, name: str) -> None:
    texts, relevant = made
    qrels = Qrels({f"q{q:03d}": {str(x): 1 for x in labels} for q, labels in enumerate(relevant)})
    theirs = fuse(runs, norm=norm, method=METHODS[name])
    ndcg = evaluate(qrels, theirs, "ndcg@10", return_mean=False)
    precision = evaluate(qrels, theirs, "precision@10", return_mean=False)
    compared = 0
    for q, text in enumerate(texts):
        fused = reference.fuse(whole(text), norm, name)
        if len({score for _, score in fused}) < len(fused):
            continue
        compared += 1
        ranking = [label for label, _ in fused]
        assert reference.evaluate(ranking, relevant[q], "ndcg", 10) == pytest.approx(ndcg[q], abs=1e-9)
        assert reference.evaluate(ranking, relevant[q], "precision", 10) == pytest.approx(precision[q], abs=1e-9)
    assert compared >= TEXTS // 2


@pytest.mark.parametrize("name", ["isr", "log-isr", "bordafuse"])
def test_deviation_borda_norm_with_rank_methods(made, runs, name: str) -> None:
    """Under Borda ranx hands over lists in the order of a set, and rank methods read that as the ranking.
    Normalising keeps the order of a list, so the right result is that of any other normalisation."""
    sound = fuse(runs, norm="min-max", method=METHODS[name]).to_dict()
    broken = fuse(runs, norm="borda", method=METHODS[name]).to_dict()
    assert any(list(sound[q]) != list(broken[q]) for q in sound)
    for text in made[0]:
        assert reference.fuse(whole(text), "borda", name) == reference.fuse(whole(text), "min-max", name)


def test_deviation_condorcet_depends_on_the_order_of_a_set() -> None:
    """Its comparator answers "first" on every tie, so the result follows the order in which candidates come."""
    results = List([List(["a", "b", "c"]), List(["c", "b", "a"])])
    one = dict(_condorcet(results, List(["a", "b", "c"])))
    other = dict(_condorcet(results, List(["c", "a", "b"])))
    assert one != other
    lists = {"x": {1: 3.0, 2: 2.0, 3: 1.0}, "y": {3: 3.0, 2: 2.0, 1: 1.0}}
    assert reference.fuse(lists, "rank", "condorcet") == [(1, 0.0), (2, 0.0), (3, 0.0)]


def test_deviation_ties_are_not_ordered_by_id() -> None:
    """ranx sorts by score alone, with an unstable sort."""
    labels = [str(100 + x) for x in range(50)]
    run = Run({"q": dict.fromkeys(labels, 1.0)})
    fused = fuse([run, run], norm="min-max", method="sum").to_dict()["q"]
    assert sorted(fused) == labels
    assert list(fused) != labels
    ours = reference.fuse({"x": dict.fromkeys(labels, 1.0), "y": dict.fromkeys(labels, 1.0)}, "min-max", "combsum")
    assert [label for label, _ in ours] == labels
