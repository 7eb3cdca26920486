"""Sigmoid: scores that are logits as probabilities, each on its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.registry import Affine, ListArithmetic, Statistics, normalization
from fusion.types import Floats


@normalization(
    "sigmoid",
    reads="scores",
    formula="1 / (1 + exp(-s))",
    citation="J. C. Platt. Probabilistic outputs for support vector machines. 1999.",
    when="Scores that are logits of a calibrated classifier.",
)
def sigmoid(results: Statistics) -> Affine:
    return 0.0, 1.0


@sigmoid.shaped
def _(x: Any, results: ListArithmetic) -> Any:
    return 1 / (1 + results.exp(-x))


@sigmoid.reference
def _(scores: Floats, candidates: int) -> Floats:
    return 1 / (1 + np.exp(-scores))
