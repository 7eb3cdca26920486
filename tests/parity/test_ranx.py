"""ranx: the library of the paper's authors. Equal where it is sound; each deviation is asserted as such."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import ranx.fusion
from numba.typed import List
from ranx import Qrels, Run, evaluate, fuse
from ranx.fusion.condorcet import _condorcet
from ranx.fusion.weighted_condorcet import _condorcet as _weighted_condorcet
from ranx.normalization import norm_switch

import xmtc_fusion as xf
from benchmarks.data import make_chunk
from fusion import FUSIONS, NORMALIZATIONS
from fusion.grid.trained import Evidence, Learned, ListHits, count_list_hits
from fusion.kernel.candidates import Candidates
from fusion.kernel.pools import Lists, Relevant, merge_lists
from fusion.labels import ALL
from fusion.names import print_call
from jobs.evaluation import fuse as fuse_job
from jobs.settings.config import load_config
from tests import reference
from tests.lists import no_relevant, random_relevant, random_texts, to_lists, whole
from tests.many_ties import many_ties, our_figures
from udfs.lists import id_order

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
    "rrf": "rrf",
    "rbc": "rbc",
    "combgmnz": "gmnz",
    "logn-isr": "logn_isr",
    "wsum": "wsum",
    "wmnz": "wmnz",
    "mixed": "mixed",
    "weighted-bordafuse": "w_bordafuse",
}
PARAMETERS = {
    "rrf": {"k": 13},
    "rbc": {"phi": 0.7},
    "combgmnz": {"gamma": 1.7},
    "logn-isr": {"sigma": 0.3},
}
WEIGHTS = [0.3, 0.7, 1.9, 0.2, 2.5, 0.9, 1.1, 0.4]
NORMS = ["min-max", "max", "sum", "zmuv", "rank", "borda", "none"]
SOUND = [(norm, name) for norm in NORMS for name in METHODS if not (norm == "borda" and FUSIONS[name].reads == "ranks")]
TEXTS = 25


class Made(NamedTuple):
    """Texts with their lists, as ours and as ranx has them. ranx asks that every run has every query."""

    lists: Lists
    retrievers: list[str]
    runs: list[Run]


def _random(retrievers: int) -> Made:
    texts = random_texts(np.random.default_rng(retrievers), 12 * TEXTS, retrievers=min(retrievers, 4), ties=False)
    if retrievers > 4:
        others = random_texts(np.random.default_rng(9), 12 * TEXTS, retrievers=4, ties=False)
        texts = [a | {f"{name}2": lists for name, lists in b.items()} for a, b in zip(texts, others, strict=True)]
    full = [text for text in texts if all(whole(text)[name] for name in text)][:TEXTS]
    assert len(full) == TEXTS
    lists = [{name: {str(x): float(s) for x, s in whole(text)[name].items()} for name in text} for text in full]
    return Made(to_lists(full, ALL), list(full[0]), _runs(lists))


def _shaped(retrievers: int) -> Made:
    """Lists of 64 labels with overlap and scores as retrievers give them."""
    names = tuple(f"r{r}" for r in range(retrievers))
    chunk = make_chunk(0, TEXTS, 500, names)
    texts = []
    for t in range(TEXTS):
        text = {}
        for name in names:
            pairs = [zip(*(rows[t].tolist() for rows in chunk.lists[name, g]), strict=True) for g in ("tail", "head")]
            text[name] = {
                group: {x: s for x, s in of if x >= 0} for group, of in zip(("tail", "head"), pairs, strict=True)
            }
        texts.append(text)
    lists = [{name: {str(x): float(s) for x, s in whole(text)[name].items()} for name in names} for text in texts]
    return Made(to_lists(texts, ALL), list(names), _runs(lists))


def _runs(lists) -> list[Run]:
    return [Run({f"q{q:03d}": text[name] for q, text in enumerate(lists)}) for name in lists[0]]


DATA = {"random-2": (_random, 2), "random-3": (_random, 3), "random-8": (_random, 8), "shaped-8": (_shaped, 8)}
SLOW = ("random-3", "random-8")
CASES = [
    pytest.param(data, *case, marks=pytest.mark.drill if data in SLOW else ())
    for data in DATA
    for case in SOUND
    if data != "shaped-8" or case[0] in ("zmuv", "none")
]


@cache
def _made(data: str) -> Made:
    make, retrievers = DATA[data]
    return make(retrievers)


@pytest.mark.parametrize(("data", "norm", "name"), CASES)
def test_scores_are_equal(data: str, norm: str, name: str) -> None:
    """Every label of every text, before our rounding to single precision."""
    several = _made(data)
    parameters = PARAMETERS.get(name, {})
    given = dict(parameters)
    if FUSIONS[name].parameters.weighted:
        given["weights"] = WEIGHTS[: len(several.runs)]
    theirs = fuse(several.runs, norm=None if norm == "none" else norm, method=METHODS[name], params=given).to_dict()
    pools = merge_lists(several.lists, no_relevant(TEXTS), keep_all=True)
    weights = dict(zip(several.retrievers, WEIGHTS, strict=False)) if "weights" in given else {}
    fusion = FUSIONS[print_call(name, {**parameters, **weights})]
    normalization = None if fusion.reads == "ranks" else NORMALIZATIONS[norm]
    ours = fusion.kernel(Candidates(pools, normalization), **fusion.arguments(several.retrievers))
    for q in range(TEXTS):
        inside = slice(pools.offset[q], pools.offset[q + 1])
        expected = {int(label): score for label, score in theirs[f"q{q:03d}"].items()}
        assert pools.label[inside].tolist() == sorted(expected)
        np.testing.assert_allclose(ours[inside], [expected[x] for x in sorted(expected)], rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def made():
    rng = np.random.default_rng(1)
    texts = random_texts(rng, 3 * TEXTS, retrievers=3, ties=False)
    full = [text for text in texts if all(whole(text)[name] for name in text)][:TEXTS]
    assert len(full) == TEXTS
    return full, random_relevant(rng, TEXTS)


@pytest.fixture(scope="module")
def runs(made):
    return _runs(
        [{name: {str(x): float(s) for x, s in whole(text)[name].items()} for name in text} for text in made[0]]
    )


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


def test_deviation_weighted_condorcet_depends_on_the_order_of_candidates() -> None:
    """As for the plain one: weights that balance are a tie, which the comparator gives to whichever comes first."""
    results = List([List(["a", "b", "c"]), List(["c", "b", "a"])])
    weights = List([0.5, 0.5])
    orders = [dict(_weighted_condorcet(results, List(list(order)), weights)) for order in ("abc", "cab")]
    assert orders[0] != orders[1]
    lists = {"x": {1: 3.0, 2: 2.0, 3: 1.0}, "y": {3: 3.0, 2: 2.0, 1: 1.0}}
    tied = reference.fuse(lists, "rank", "weighted-condorcet(x=0.5,y=0.5)")
    assert tied == [(1, 0.0), (2, 0.0), (3, 0.0)]


@pytest.mark.parametrize("weights", [[0.7, 0.2, 0.3], [0.2, 0.3, 0.9]])
def test_weighted_condorcet_where_one_list_decides(weights: list[float]) -> None:
    """With a list that outweighs all others and holds every label there are no ties, and both follow that list."""
    rng = np.random.default_rng(2)
    labels = [str(label) for label in range(10, 30)]
    lists = {name: dict(zip(rng.permutation(labels).tolist(), range(20, 0, -1), strict=True)) for name in "abc"}
    runs = [Run({"q": {label: float(score) for label, score in scores.items()}}) for scores in lists.values()]
    theirs = fuse(runs, norm="min-max", method="w_condorcet", params={"weights": weights}).to_dict()["q"]
    name = print_call("weighted-condorcet", dict(zip("abc", weights, strict=True)))
    ours = reference.fuse(lists, "min-max", name)
    assert [label for label, _ in ours] == list(lists["abc"[int(np.argmax(weights))]]) == list(theirs)


def test_deviation_ties_are_not_ordered_by_id() -> None:
    """ranx sorts by score alone, with an unstable sort."""
    labels = [str(100 + x) for x in range(50)]
    run = Run({"q": dict.fromkeys(labels, 1.0)})
    fused = fuse([run, run], norm="min-max", method="sum").to_dict()["q"]
    assert sorted(fused) == labels
    assert list(fused) != labels
    ours = reference.fuse({"x": dict.fromkeys(labels, 1.0), "y": dict.fromkeys(labels, 1.0)}, "min-max", "combsum")
    assert [label for label, _ in ours] == labels


RANX = {
    "map": "map-l{}",
    "mrr": "mrr-l{}",
    "r-precision": "r-precision-l{}",
    "bpref": "bpref-l{}",
    **{f"{name}@{k}": f"{name}@{k}-l{{}}" for name in ("map", "mrr", "recall", "precision", "f1") for k in (1, 5, 20)},
    **{f"hit-rate@{k}": f"hit_rate@{k}-l{{}}" for k in (1, 5)},
    **{f"ndcg@{k}": f"ndcg@{k}-l1" for k in (1, 10, 30)},
}
"""What ranx calls our metrics. With a level above 1 its nDCG forgets lower grades; ours, as trec_eval's, does not."""


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize("relevant_from", [1, 2])
def test_compat_reproduces_every_metric_of_single_runs_with_ties(count: int, gain: str, relevant_from: int) -> None:
    """ranx sorts with numba's quicksort, whose result depends on the order of the labels it is given. Here that is
    ascending; in another order, or with the sets of its fusions, ties fall otherwise."""
    data = many_ties(count, count, graded=True)
    metrics = [*RANX, "ndcg@10"]
    ours = our_figures(data, metrics, compat="ranx", relevant_from=relevant_from, gain=gain)
    names = {name: ranx.format(relevant_from) for name, ranx in RANX.items()}
    if gain == "exponential":
        names |= {name: ranx.replace("ndcg", "ndcg_burges") for name, ranx in names.items()}
    qrels = Qrels({text: {x: g for x, g in grades.items() if g >= 0} for text, grades in data.grades.items()})
    for run, lists in data.runs.items():
        ordered = {text: {x: scores[x] for x in sorted(scores, key=id_order)} for text, scores in lists.items()}
        theirs = evaluate(qrels, Run(ordered), list(names.values()))
        for name, theirs_called in names.items():
            assert ours[f"single+{run}", name] == pytest.approx(theirs[theirs_called], abs=1e-9), (run, name)


def test_compat_compares_fused_scores_in_double_precision(made, runs) -> None:
    """Without ties in double precision, ranx's own fused run has the figures that we have."""
    texts, relevant = made
    names = list(texts[0])
    mine = {
        name: {f"q{q:03d}": {str(x): float(s) for x, s in whole(text)[name].items()} for q, text in enumerate(texts)}
        for name in names
    }
    judged = {f"q{q:03d}": {str(x): 1 for x in labels} for q, labels in enumerate(relevant)}
    metrics = ["map", "mrr@5", "ndcg@10", "f1@5"]
    cell = {"cells": ["zmuv+combsum"], "engine": "local"}
    settings = {"evaluate.details": False, "evaluate.compat": "ranx"}
    found = xf.evaluate(judged, mine, metrics=metrics, settings=settings, **cell).metrics.to_pylist()
    theirs = evaluate(Qrels(judged), fuse(runs, norm="zmuv", method="sum"), metrics)
    for row in found:
        if row["normalization"] == "zmuv":
            name = f"{row['metric']}@{row['k']}" if row["k"] else row["metric"]
            assert row["value"] == pytest.approx(theirs[name], abs=1e-9)


def test_ranx_reads_what_fuse_writes(runs: list[Run], tmp_path: Path) -> None:
    for n, run in enumerate(runs):
        run.save(str(tmp_path / f"{n}.json"))
    sources = {f"r{n}": str(tmp_path / f"{n}.json") for n in range(len(runs))}
    for kind in ("ranx", "trec"):
        settings = {"inputs.candidates": sources, "grid.cells": ["zmuv+combmnz"], "fuse.format": kind, "fuse.top": 1000}
        fuse_job.run(None, load_config(None, {**settings, "output.path": str(tmp_path / kind)}))
        (file,) = (tmp_path / kind).glob("zmuv+combmnz.*")
        read = Run.from_file(str(file)).to_dict()
        theirs = fuse(runs, norm="zmuv", method="mnz").to_dict()
        assert read.keys() == theirs.keys()
        assert all(read[text] == pytest.approx(theirs[text], rel=1e-6, abs=1e-6) for text in theirs)


TRAINED = {
    "bayesfuse": ("bayesfuse", {}, "log_odds"),
    "mapfuse": ("mapfuse", {}, "map_scores"),
    "posfuse": ("posfuse", {}, "probs"),
    "probfuse(segments=7)": ("probfuse", {"n_segments": 7}, "probs"),
    "probfuse(segments=100)": ("probfuse", {"n_segments": 100}, "probs"),
    "segfuse": ("segfuse", {}, "probs"),
    "slidefuse(w=2)": ("slidefuse", {}, "probs"),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("data", [pytest.param(data, marks=pytest.mark.drill if data in SLOW else ()) for data in DATA])
def test_trained_scores_are_equal(data: str, name: str) -> None:
    """Learned from the same lists and judgements by ranx and by us, applied to the same lists."""
    several = _made(data)
    method, settings, argument = TRAINED[name]
    rng = np.random.default_rng(8)
    labels = np.unique(several.lists.label)
    relevant = [sorted(rng.choice(labels, rng.integers(1, 9), replace=False).tolist()) for _ in range(TEXTS)]
    qrels = Qrels({f"q{q:03d}": {str(x): 1 for x in of} for q, of in enumerate(relevant)})
    runs = [norm_switch("min-max")(run) for run in several.runs]
    learned = getattr(ranx.fusion, f"{method}_train")(qrels, runs, **settings)
    applied = {argument: learned} | ({"w": 2} if method == "slidefuse" else {})
    theirs = fuse(several.runs, norm="min-max", method=method, params=applied).to_dict()

    ends = np.cumsum([len(of) for of in relevant])
    wanted = Relevant(np.concatenate(([0], ends[:-1])), ends, np.array([x for of in relevant for x in of], np.int32))
    hits = count_list_hits(several.lists, wanted, np.ones(TEXTS, np.bool_))
    evidence = [Evidence(*(getattr(hits, of)[r] for of in ListHits._fields)) for r in range(len(runs))]
    pools = merge_lists(several.lists, no_relevant(TEXTS), keep_all=True)
    ours = FUSIONS[name].kernel(Candidates(pools, NORMALIZATIONS["min-max"]), learned=Learned({0: evidence}))
    for q in range(TEXTS):
        inside = slice(pools.offset[q], pools.offset[q + 1])
        expected = {int(label): score for label, score in theirs[f"q{q:03d}"].items()}
        np.testing.assert_allclose(ours[inside], [expected[x] for x in sorted(expected)], rtol=1e-9, atol=1e-9)
