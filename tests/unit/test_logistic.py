"""Logistic regression: the coefficients that learned fusions are made of."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from fusion.tuning.learners import train_logistic


def test_coefficients_are_those_of_a_general_optimizer() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((400, 3)) * [1, 5, 0.2] + [0, 3, -1]
    relevant = rng.random(400) < 1 / (1 + np.exp(-(matrix[:, 0] - matrix[:, 1] + 3)))
    (model,) = train_logistic(matrix, relevant, ["a", "b", "c"], [2.0])
    mean, scale = matrix.mean(axis=0), matrix.std(axis=0)
    rows = np.column_stack([(matrix - mean) / scale, np.ones(400)])

    def loss(weights: np.ndarray) -> float:
        score = rows @ weights
        return float(np.sum(np.logaddexp(0, score) - relevant * score) + np.sum(weights[:-1] ** 2))

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    assert np.allclose(model.coefficients, best[:-1] / scale, rtol=1e-3, atol=1e-4)


def test_a_constant_feature_has_no_coefficient() -> None:
    """Summing many equal rows rounds, so that their deviation is not quite 0."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(300_000)
    matrix = np.column_stack([np.full(300_000, np.log(65)), signal])
    assert matrix.std(axis=0)[0] > 0
    (model,) = train_logistic(matrix, signal > rng.standard_normal(300_000), ["length", "signal"], [1.0])
    constant, of_signal = model.coefficients
    assert constant == 0 and 1 < of_signal < 3
