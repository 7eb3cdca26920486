"""BordaFuse: every list hands out votes over all candidates; those it missed share the rest."""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "bordafuse",
    reads="ranks",
    formula="sum over the lists: C - i if present, (C - n + 1) / 2 if not",
    citation="J. A. Aslam, M. Montague. Models for metasearch. SIGIR 2001.",
    when="Ranks only, long lists, and every rank worth the same step.",
    standard=True,
)
def bordafuse(candidates: Candidates) -> Array:
    return points(candidates, np.ones(len(candidates.pools.position)))


def points(candidates: Candidates, weights: Floats) -> Array:
    """The votes that labels get from all lists, each list's times its weight."""
    return _points(candidates.pools.offset, candidates.place, candidates.pools.size, weights)


@bordafuse.reference
def _(x: Floats, ranks: Floats) -> Floats:
    candidates = ranks.shape[1]
    size = np.sum(~np.isnan(ranks), axis=1, keepdims=True)
    return np.where(np.isnan(ranks), (candidates - size + 1) / 2, candidates - (ranks - 1)).sum(axis=0)


@compiled
def _points(offset, position, size, weights):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    votes = np.zeros(candidates, np.float64)
    for p in range(offset.size - 1):
        among = offset[p + 1] - offset[p]
        for r in range(retrievers):
            if size[p, r] == 0:
                continue
            rest = (among - size[p, r] + 1) / 2
            for c in range(offset[p], offset[p + 1]):
                votes[c] += weights[r] * (among - position[r, c] if position[r, c] >= 0 else rest)
    return votes
