"""Reciprocal rank fusion: the inverse of a label's ranks, damped by a constant."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "rrf",
    reads="ranks",
    formula="sum(1 / (k + r))",
    citation="G. V. Cormack, C. L. A. Clarke, S. Büttcher. Reciprocal rank fusion outperforms Condorcet and "
    "individual rank learning methods. SIGIR 2009.",
    when="The usual baseline of hybrid search: ranks only, one parameter that rarely needs tuning.",
)
def rrf(candidates: Candidates, k: int = 60) -> Array:
    return candidates.total_by_rank(lambda rank: 1 / (k + rank))


@rrf.reference
def _(x: Floats, ranks: Floats, k: int = 60) -> Floats:
    return np.nansum(1 / (k + ranks), axis=0)
