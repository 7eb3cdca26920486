"""Offsets per label: by the formula, from the other half of the texts, and none without evidence."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.label_offsets import Rows, gains, offsets

LOGITS = np.array([0.0, 1.0, -1.0, 0.5, 2.0])
ROWS = Rows(
    text=np.array([1, 1, 2, 3, 3]),
    half=np.array([0, 0, 1, 1, 1]),
    label=np.array([7, 8, 7, 7, 9]),
    relevant=np.array([True, False, True, False, True]),
    listed=np.array([[True, True, True, True, False], [False, True, False, True, True]]),
    ideal=np.ones(5),
    scores=LOGITS[None, :],
)


def test_by_the_formula() -> None:
    expected = (1 / (1 + np.exp([1.0, -0.5]))).sum()
    first_list = 2 / (2 + 10) * np.log(1.5 / (expected + 0.5))
    moved = offsets(ROWS, LOGITS, 10.0)
    assert moved[0] == pytest.approx(first_list)
    # Of two lists, the second of which has seen the label nowhere else.
    assert moved[3] == pytest.approx(1 / 11 * np.log(1.5 / 1.0) / 2)
    assert moved[[1, 4]].tolist() == [0, 0]
    assert np.abs(offsets(ROWS, LOGITS, 1e12)).max() < 1e-9


def test_gains_by_text() -> None:
    assert gains(ROWS, LOGITS) == pytest.approx([1 / np.log2(3), 1, 1])
