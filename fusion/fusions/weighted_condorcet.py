"""Weighted Condorcet: label a beats b if the lists that rank a above b weigh more than those that rank b above a.

The score is wins minus losses. Sums of weights that differ by rounding alone are equal.
"""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats

SAME = 1e-9
"""Differences of this share of all weights, and smaller ones, are rounding."""


@fusion(
    "weighted-condorcet",
    reads="ranks",
    formula="labels beaten - labels lost to, by pairwise majority of the lists' weights",
    citation="M. Montague, J. A. Aslam. Condorcet fusion for improved retrieval. CIKM 2002. A. H. Copeland, 1951.",
    when="As `condorcet`, for retrievers of unequal quality.",
)
def weighted_condorcet(candidates: Candidates, *, weights: Floats) -> Array:
    pools = candidates.pools
    return _balances(pools.offset, candidates.order, pools.size, weights, SAME * np.abs(weights).sum())


@weighted_condorcet.reference
def _(x: Floats, ranks: Floats, *, weights: Floats) -> Floats:
    place = np.where(np.isnan(ranks), np.inf, ranks)
    above = (weights[:, None, None] * (place[:, :, None] < place[:, None, :])).sum(axis=0)
    ahead = above - above.T
    return np.where(np.abs(ahead) <= SAME * np.abs(weights).sum(), 0, np.sign(ahead)).sum(axis=1)


@compiled
def _balances(offset, position, size, weights, same):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    out = np.empty(candidates, np.float64)
    for p in range(offset.size - 1):
        first, count = offset[p], offset[p + 1] - offset[p]
        place = np.empty((retrievers, count), np.int32)
        for r in range(retrievers):
            for c in range(count):
                place[r, c] = position[r, first + c] if position[r, first + c] >= 0 else size[p, r]
        ahead = np.empty(count, np.float64)
        for a in range(count):
            ahead[:] = 0
            for r in range(retrievers):
                mine = place[r, a]
                for b in range(count):
                    ahead[b] += weights[r] * (np.float64(place[r, b] > mine) - np.float64(place[r, b] < mine))
            balance = 0
            for b in range(count):
                balance += np.int64(ahead[b] > same) - np.int64(ahead[b] < -same)
            out[first + a] = balance
    return out
