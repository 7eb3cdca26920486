"""scikit-learn: the averages over texts, pairs and labels of the labels that are listed down to a rank."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from tests.many_ties import CELLS, LABELS, Data, many_ties, our_figures

CUTOFFS = (1, 5, 30)
AVERAGES = {"samples": "sample", "micro": "micro", "macro": "macro"}
QUANTITIES = ("precision", "recall", "f1")
ALSO = {"sample-recall": "recall"}
"""Metrics that are one and the same have one name in the tables."""


def thinned(data: Data) -> Data:
    """Some texts get no labels, and others no list in some runs, or in none."""
    texts = list(data.grades)
    runs = {name: dict(run) for name, run in data.runs.items()}
    for n, run in enumerate(runs.values()):
        for text in [*texts[:3], *texts[5 + n :: 7]]:
            run.pop(text)
    grades = {text: {} if n % 6 == 2 else grades for n, (text, grades) in enumerate(data.grades.items())}
    grades = {text: {label: grade for label, grade in of_text.items() if grade} for text, of_text in grades.items()}
    return Data(runs, grades)


def indicator(sets: list[list[str]]) -> np.ndarray:
    """[text, label]"""
    return np.array([[label in of_text for label in LABELS] for of_text in sets])


@pytest.mark.parametrize("runs", [2, 3])
def test_figures_are_equal(runs: int) -> None:
    data = thinned(many_ties(runs, runs, graded=False))
    names = [f"{kind}-{quantity}@{k}" for kind in AVERAGES.values() for quantity in QUANTITIES for k in CUTOFFS]
    lists = {text: list(labels) for text, labels in data.grades.items()}
    ours = our_figures(Data(data.runs, lists), names, label_cells=CELLS)
    relevant = indicator(list(lists.values()))
    carried = np.flatnonzero(relevant.any(axis=0))
    assert not relevant.any(axis=1).all()
    for cell, ranking in data.rankings().items():
        for k in CUTOFFS:
            ranked = [ranking.get(text, {}) for text in lists]
            best = [sorted(scores, key=lambda x: (-scores[x], x))[:k] for scores in map(whole_first, ranked)]
            assigned = indicator([[name for _, name in labels] for labels in best])
            assert not assigned.any(axis=1).all()
            for average, kind in AVERAGES.items():
                labels = carried if average == "macro" else None
                theirs = precision_recall_fscore_support(
                    relevant, assigned, labels=labels, average=average, zero_division=0
                )
                for quantity, expected in zip(QUANTITIES, theirs[:3], strict=True):
                    name = ALSO.get(f"{kind}-{quantity}", f"{kind}-{quantity}")
                    assert ours[cell, f"{name}@{k}"] == pytest.approx(expected, abs=1e-12), (cell, name, k)


def whole_first(scores: dict[str, float]) -> dict[tuple[tuple[bool, int], str], float]:
    """Labels with what orders them: ids that are whole numbers by value, other ids after them by their characters."""
    return {((not x.isdecimal(), int(x) if x.isdecimal() else 0), x): score for x, score in scores.items()}
