"""Weighted BordaFuse: as BordaFuse, with the votes of each list times its weight."""

from __future__ import annotations

import numpy as np

from fusion.fusions.bordafuse import points
from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "weighted-bordafuse",
    reads="ranks",
    formula="sum over the lists: w (C - i) if present, w (C - n + 1) / 2 if not",
    citation="J. A. Aslam, M. Montague. Models for metasearch. SIGIR 2001.",
    when="As `bordafuse`, for retrievers of unequal quality.",
)
def weighted_bordafuse(candidates: Candidates, *, weights: Floats) -> Array:
    return points(candidates, weights)


@weighted_bordafuse.reference
def _(x: Floats, ranks: Floats, *, weights: Floats) -> Floats:
    candidates = ranks.shape[1]
    size = np.sum(~np.isnan(ranks), axis=1, keepdims=True)
    votes = np.where(np.isnan(ranks), (candidates - size + 1) / 2, candidates - (ranks - 1))
    return (weights[:, None] * votes).sum(axis=0)
