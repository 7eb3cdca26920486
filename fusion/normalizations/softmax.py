"""Softmax: the scores of a list as probabilities that sum to 1; the higher the temperature, the more even."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.registry import Affine, ListArithmetic, Statistics, normalization
from fusion.types import Floats


@normalization(
    "softmax",
    reads="scores",
    formula="exp(s / temperature) / sum(exp(s / temperature))",
    citation="J. S. Bridle. Training stochastic model recognition algorithms as networks can lead to maximum mutual "
    "information estimation of parameters. NIPS 1989.",
    when="Scores that are logits, or when the top of a list should dominate.",
    limits={"temperature": (1e-6, 1e6)},
)
def softmax(results: Statistics, temperature: float = 1.0) -> Affine:
    # The highest score has exponent 0, so that no exponential is too large.
    return results.high, temperature


@softmax.shaped
def _(x: Any, results: ListArithmetic, temperature: float = 1.0) -> Any:
    raised = results.exp(x)
    return raised / results.sum(raised)


@softmax.reference
def _(scores: Floats, candidates: int, temperature: float = 1.0) -> Floats:
    shares = np.exp((scores - scores.max()) / temperature)
    return shares / shares.sum()
