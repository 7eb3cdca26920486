"""Logistic regression by Newton's method: the same coefficients whenever the same rows come in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusion.tuning.models import LinearModel
from fusion.types import Array, Floats

ROWS_AT_ONCE = 65_536
MOST_STEPS = 30
CLOSE = 1e-9
"""Steps end when the gain they promise is below this share of the loss."""
DIGITS = 9
"""Coefficients are rounded to so many significant digits: what the last bits of a sum are worth does not show."""


class Standardized(NamedTuple):
    """Rows of features with mean 0 and deviation 1, and a column of ones; features without spread are left out."""

    rows: Floats
    mean: Floats
    scale: Floats
    used: Array


def standardized(matrix: Floats) -> Standardized:
    mean, scale = matrix.mean(axis=0), matrix.std(axis=0)
    used = np.flatnonzero(scale > 1e-12 * np.maximum(np.abs(mean), 1.0))
    rows = np.ones((len(matrix), len(used) + 1))
    rows[:, :-1] = (matrix[:, used] - mean[used]) / scale[used]
    return Standardized(rows, mean[used], scale[used], used)


def train_logistic(
    matrix: Floats, relevant: Array, features: Sequence[str], strengths: Sequence[float]
) -> Iterator[LinearModel]:
    """One model per strength of the L2 penalty: sum(log(1 + exp(-+score))) + strength / 2 * sum(w^2), in which features
    have deviation 1 and the intercept is free. Every model starts from the one before."""
    table = standardized(matrix)
    target = relevant.astype(np.float64)
    weights = np.zeros(table.rows.shape[1])
    share = min(max(float(target.mean()), 1e-6), 1 - 1e-6)
    weights[-1] = np.log(share / (1 - share))
    for strength in strengths:
        weights = _newton(table.rows, target, weights, strength)
        yield _plain(weights, table, features, strength)


def _newton(rows: Floats, target: Floats, weights: Floats, strength: float) -> Floats:
    penalty = np.full(len(weights), strength)
    penalty[-1] = 0.0
    loss, gradient, curvature = _sums(rows, target, weights, penalty)
    for _ in range(MOST_STEPS):
        # A trace of the penalty keeps the equations solvable where features say the same.
        step = np.linalg.solve(curvature + np.diag(np.full(len(weights), 1e-8 * np.trace(curvature))), gradient)
        promised = float(step @ gradient)
        length = 1.0
        while True:
            tried = weights - length * step
            new_loss, new_gradient, new_curvature = _sums(rows, target, tried, penalty)
            if new_loss <= loss or length < 1e-6:
                break
            length /= 2
        if new_loss > loss:
            break
        weights, loss, gradient, curvature = tried, new_loss, new_gradient, new_curvature
        if promised < CLOSE * loss:
            break
    return weights


def _sums(rows: Floats, target: Floats, weights: Floats, penalty: Floats) -> tuple[float, Floats, Floats]:
    """The loss, its gradient and its curvature, added up in the order of the rows."""
    loss = float(penalty @ weights**2) / 2
    gradient = penalty * weights
    curvature = np.diag(penalty)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        part, wanted = rows[first : first + ROWS_AT_ONCE], target[first : first + ROWS_AT_ONCE]
        score = part @ weights
        loss += float(np.sum(np.logaddexp(0, score) - wanted * score))
        probability = 1 / (1 + np.exp(-np.clip(score, -500, 500)))
        gradient = gradient + part.T @ (probability - wanted)
        curvature = curvature + part.T @ (part * (probability * (1 - probability))[:, None])
    return loss, gradient, curvature


def _plain(weights: Floats, table: Standardized, features: Sequence[str], strength: float) -> LinearModel:
    """The model over the features as they are."""
    coefficients = np.zeros(len(features))
    coefficients[table.used] = weights[:-1] / table.scale
    intercept = float(weights[-1] - np.sum(weights[:-1] * table.mean / table.scale))
    return LinearModel(tuple(features), tuple(map(rounded, coefficients.tolist())), rounded(intercept), float(strength))


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}")
