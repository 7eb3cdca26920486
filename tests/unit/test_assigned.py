"""Figures of assigned sets of labels, as scikit-learn gives them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_fscore_support

from fusion.statistics.assigned import Averages, Pairs, score_assigned

TEXTS, LABELS = 200, 40


def random_sets(seed: int, share: float) -> np.ndarray:
    """[text, label]; some texts have none, some labels are in none, and the first labels are in many."""
    rng = np.random.default_rng(seed)
    sets = rng.random((TEXTS, LABELS)) < share * np.linspace(3, 0, LABELS)
    sets[rng.random(TEXTS) < 0.1] = False
    return sets


@pytest.mark.parametrize(("seed", "share"), [(1, 0.02), (2, 0.1), (3, 0.3)])
def test_scikit_learn_gives_the_same(seed: int, share: float) -> None:
    relevant = random_sets(seed, share)
    noise = random_sets(seed + 100, share)
    assigned = np.where(np.random.default_rng(seed).random(relevant.shape) < 0.6, relevant, noise)
    assert (~relevant.any(axis=1)).any() and (~assigned.any(axis=1)).any() and (~relevant.any(axis=0)).any()
    figures = score_assigned(Pairs(*np.nonzero(assigned)), Pairs(*np.nonzero(relevant)), TEXTS)
    carried = np.flatnonzero(relevant.any(axis=0))
    for average, ours in (("samples", figures.sample), ("micro", figures.micro), ("macro", figures.macro)):
        labels = carried if average == "macro" else None
        theirs = precision_recall_fscore_support(relevant, assigned, labels=labels, average=average, zero_division=0)
        assert ours == pytest.approx(theirs[:3], abs=1e-12), average


def test_the_order_of_pairs_does_not_matter() -> None:
    relevant, assigned = (Pairs(*np.nonzero(random_sets(seed, 0.1))) for seed in (4, 5))
    order = np.random.default_rng(6).permutation(len(assigned.text))
    shuffled = Pairs(assigned.text[order], assigned.label[order])
    assert score_assigned(shuffled, relevant, TEXTS) == score_assigned(assigned, relevant, TEXTS)


def test_nothing_assigned_or_nothing_relevant() -> None:
    nothing, some = Pairs(np.empty(0, np.int64), np.empty(0, np.int64)), Pairs(np.array([0, 1]), np.array([3, 3]))
    for assigned, relevant, texts in ((nothing, some, 2), (some, nothing, 2), (nothing, nothing, 0)):
        assert set(score_assigned(assigned, relevant, texts)) == {Averages(0.0, 0.0, 0.0)}


def test_a_label_that_no_text_carries_is_left_out_of_macro_averages_only() -> None:
    """Text 0 carries label 0 and is assigned labels 0 and 1; nothing carries label 1."""
    figures = score_assigned(Pairs(np.array([0, 0]), np.array([0, 1])), Pairs(np.array([0]), np.array([0])), 1)
    assert figures.macro == Averages(1.0, 1.0, 1.0)
    assert figures.micro == figures.sample == Averages(0.5, 1.0, pytest.approx(2 / 3))
