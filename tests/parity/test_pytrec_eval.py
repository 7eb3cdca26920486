"""trec_eval, through pytrec_eval: every metric that it shares with us, of single retrievers and of fused rankings,
ties included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
from pyspark.sql import SparkSession

from benchmarks.data import make_chunk
from fusion.labels import ALL
from jobs.evaluation import evaluate
from jobs.settings.config import load_config
from tests import reference
from tests.many_ties import many_ties, our_figures

TEXTS, LABELS, CUTS = 80, 400, (1, 5, 10, 20)
CELLS = ["zmuv+combmnz", "rank+combsum", "borda+combmin", "min-max+isr", "min-max+condorcet"]
NAMES = {"ndcg": "ndcg_cut", "precision": "P", "recall": "recall", "map": "map_cut", "hit-rate": "success"}
"""Metrics with a cut-off."""


def name_of(label: int) -> str:
    """trec_eval puts the later name first among equal scores; so that the lower id comes first, names run down."""
    return f"d{LABELS - label:06d}"


@pytest.fixture(scope="module")
def made() -> tuple[list[dict[str, dict[int, float]]], list[set[int]]]:
    """Texts of realistic shape, with scores rounded so that many tie."""
    chunk = make_chunk(0, TEXTS, LABELS)
    relevant = [set(part.tolist()) for part in np.split(chunk.relevant, np.cumsum(chunk.sizes)[:-1])]
    texts: list[dict[str, dict[int, float]]] = [{"bm25": {}, "dense": {}} for _ in range(TEXTS)]
    for (retriever, _), (labels, scores) in chunk.lists.items():
        for q in range(TEXTS):
            known = labels[q] >= 0
            texts[q][retriever] |= dict(
                zip(labels[q][known].tolist(), np.round(scores[q][known], 1).tolist(), strict=True)
            )
    return texts, relevant


def trec_eval(rankings: list[dict[int, float]], relevant: list[set[int]]) -> dict[str, float]:
    qrels = {f"q{q}": {name_of(x): 1 for x in labels} for q, labels in enumerate(relevant)}
    run = {f"q{q}": {name_of(x): float(score) for x, score in scores.items()} for q, scores in enumerate(rankings)}
    metrics = {"ndcg_cut." + ",".join(map(str, CUTS)), "P." + ",".join(map(str, CUTS))}
    results = pytrec_eval.RelevanceEvaluator(qrels, metrics).evaluate(run)
    return {metric: float(np.mean([result[metric] for result in results.values()])) for metric in results["q0"]}


def test_figures_are_equal(spark: SparkSession, made, tmp_path: Path) -> None:
    texts, relevant = made
    for retriever in texts[0]:
        lines = (
            f"q{q} Q0 {label} 0 {score!r} {retriever}\n"
            for q, text in enumerate(texts)
            for label, score in text[retriever].items()
        )
        (tmp_path / f"{retriever}.trec").write_text("".join(lines))
    (tmp_path / "qrels").write_text("".join(f"q{q} 0 {x} 1\n" for q, labels in enumerate(relevant) for x in labels))
    config = load_config(
        None,
        {
            "inputs.candidates": {name: str(tmp_path / f"{name}.trec") for name in texts[0]},
            "inputs.judgements": f"trec:{tmp_path / 'qrels'}",
            "grid.cells": CELLS,
            "evaluate.metrics": [f"{metric}@{k}" for metric in ("ndcg", "precision") for k in CUTS],
        },
    )
    rows = evaluate.run(spark, config).metrics.to_pylist()
    assert {row["label_group"] for row in rows} == {ALL}
    rankings = {f"single+{name}": [text[name] for text in texts] for name in texts[0]}
    for cell in CELLS:
        rankings[cell] = [dict(reference.fuse(text, *cell.split("+"))) for text in texts]
    assert any(len(set(scores.values())) < len(scores) for scores in rankings["single+bm25"])
    expected = {cell: trec_eval(lists, relevant) for cell, lists in rankings.items()}
    assert len(rows) == len(expected) * 2 * len(CUTS)
    for row in rows:
        metric = f"{'ndcg_cut' if row['metric'] == 'ndcg' else 'P'}_{row['k']}"
        theirs = expected[f"{row['normalization']}+{row['fusion']}"][metric]
        assert row["value"] == pytest.approx(theirs, abs=1e-9), row
        assert row["queries"] == TEXTS


METRICS = {
    "map": "map",
    "mrr": "recip_rank",
    "r-precision": "Rprec",
    "bpref": "bpref",
    **{f"{ours}@{k}": f"{theirs}_{k}" for ours, theirs in NAMES.items() for k in (*CUTS, 1000)},
}


@pytest.mark.parametrize("runs", [2, 3, 8])
@pytest.mark.parametrize(("graded", "relevant_from"), [(False, 1), (True, 1), (True, 2)])
def test_compat_reproduces_every_metric_with_ties(runs: int, graded: bool, relevant_from: int) -> None:
    """Half of the scores tie, some only in single precision, and ids order by their characters, last first."""
    data = many_ties(runs, runs, graded)
    ours = our_figures(data, list(METRICS), compat="trec_eval", relevant_from=relevant_from)
    cuts = ",".join(map(str, (*CUTS, 1000)))
    wanted = {*("map", "recip_rank", "Rprec", "bpref"), *(f"{name}.{cuts}" for name in NAMES.values())}
    evaluator = pytrec_eval.RelevanceEvaluator(data.grades, wanted, relevant_from)
    for cell, ranking in data.rankings().items():
        of_texts = evaluator.evaluate(ranking).values()
        for name, theirs in METRICS.items():
            expected = np.mean([figures[theirs] for figures in of_texts])
            assert ours[cell, name] == pytest.approx(expected, abs=1e-9), (cell, name)


def test_ties_matter_here() -> None:
    """Our own order gives other figures on the same data, so that the test above can fail."""
    data = many_ties(2, 2, graded=True)
    ours = [our_figures(data, ["ndcg@10", "map"], compat=compat) for compat in ("trec_eval", None)]
    singles = [key for key in ours[0] if key[0].startswith("single")]
    assert singles and all(ours[0][key] != pytest.approx(ours[1][key], abs=1e-6) for key in singles)
