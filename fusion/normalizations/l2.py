"""L2: the scores of a list as the coordinates of a vector of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.registry import Affine, ListArithmetic, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "l2",
    reads="scores",
    formula="s / max(sqrt(sum(s^2)), eps)",
    citation="M. Montague, J. A. Aslam. Relevance score normalization for metasearch. CIKM 2001.",
    when="Lists as vectors of unit length: many middling scores weigh as much as one high score.",
)
def l2(results: Statistics) -> Affine:
    return 0.0, 1.0


@l2.shaped
def _(x: Any, results: ListArithmetic) -> Any:
    return x / results.guard(results.sqrt(results.sum(x * x)))


@l2.reference
def _(scores: Floats, candidates: int) -> Floats:
    return scores / max(np.sqrt((scores**2).sum()), EPS)
