"""Rank-biased centroids: what a reader gets out of a place who goes on to the next one with probability phi."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "rbc",
    reads="ranks",
    formula="sum((1 - phi) phi^i)",
    citation="P. Bailey, A. Moffat, F. Scholer, P. Thomas. Retrieval consistency in the presence of query variations. "
    "SIGIR 2017.",
    when="Ranks only, with a reader's patience as the parameter.",
    limits={"phi": (0, 1)},
)
def rbc(candidates: Candidates, phi: float = 0.8) -> Array:
    return candidates.total_by_rank(lambda rank: (1 - phi) * phi ** (rank - 1))


@rbc.reference
def _(x: Floats, ranks: Floats, phi: float = 0.8) -> Floats:
    return np.nansum((1 - phi) * phi ** (ranks - 1), axis=0)
