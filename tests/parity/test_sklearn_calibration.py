"""Calibrations compared with scikit-learn's, on random rows with ties and weights."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.calibration import _SigmoidCalibration
from sklearn.isotonic import IsotonicRegression

from fusion.models.calibration import fit_isotonic, fit_platt


def made(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows = int(rng.integers(20, 3_000))
    scores = rng.normal(rng.uniform(-5, 5), rng.uniform(0.1, 20), rows).round(int(rng.integers(0, 3)))
    chance = 1 / (1 + np.exp(-(scores - scores.mean()) / scores.std() * rng.uniform(0, 4) + rng.uniform(-1, 3)))
    return scores, rng.random(rows) < chance, rng.choice([0.5, 1.0, 2.0, 3.0], rows)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_isotonic(seed: int, weighted: bool) -> None:
    scores, relevant, weights = made(seed)
    of_rows = weights if weighted else None
    ours = fit_isotonic(scores, relevant, of_rows)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(scores, relevant.astype(float), of_rows)
    asked = np.linspace(scores.min() - 1, scores.max() + 1, 5_000)
    np.testing.assert_allclose(ours.probabilities(asked), theirs.predict(asked), atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_platt(seed: int, weighted: bool) -> None:
    scores, relevant, weights = made(seed)
    of_rows = weights if weighted else None
    ours = fit_platt(scores, relevant, of_rows)
    theirs = _SigmoidCalibration().fit(scores, relevant.astype(int), of_rows)
    if theirs.a_ > 0:
        # Theirs may fall; ours is monotone.
        assert ours.slope == 0
        return
    asked = np.linspace(scores.min(), scores.max(), 500)
    np.testing.assert_allclose(ours.probabilities(asked), theirs.predict(asked), atol=2e-3)
