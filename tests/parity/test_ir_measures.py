"""ir-measures: every metric that it shares with us, graded and binary, with ties as trec_eval orders them."""

from __future__ import annotations

import ir_measures
import pytest
from ir_measures import AP, RR, Bpref, P, R, Rprec, Success, nDCG

from tests.many_ties import many_ties, our_figures

EXPONENTIAL = {0: 0, 1: 1, 2: 3, 3: 7}


@pytest.mark.parametrize("runs", [2, 3, 8])
@pytest.mark.parametrize(("relevant_from", "gain"), [(1, "linear"), (2, "exponential")])
def test_figures_are_equal(runs: int, relevant_from: int, gain: str) -> None:
    data = many_ties(runs, runs, graded=True)
    rel = {"rel": relevant_from}
    theirs = {
        **{f"precision@{k}": P(**rel) @ k for k in (1, 5, 10)},
        **{f"recall@{k}": R(**rel) @ k for k in (5, 100)},
        **{f"map@{k}": AP(**rel) @ k for k in (5, 1000)},
        **{f"hit-rate@{k}": Success(**rel) @ k for k in (1, 5)},
        **{f"ndcg@{k}": nDCG(gains=EXPONENTIAL) @ k if gain == "exponential" else nDCG @ k for k in (1, 10, 1000)},
        "map": AP(**rel),
        "mrr": RR(**rel),
        "r-precision": Rprec(**rel),
        "bpref": Bpref(**rel),
    }
    ours = our_figures(data, list(theirs), compat="trec_eval", relevant_from=relevant_from, gain=gain)
    evaluator = ir_measures.pytrec_eval.evaluator(list(theirs.values()), data.grades)
    for cell, ranking in data.rankings().items():
        expected = evaluator.calc_aggregate(ranking)
        for name, metric in theirs.items():
            assert ours[cell, name] == pytest.approx(expected[metric], abs=1e-9), (cell, name)
