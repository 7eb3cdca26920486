"""CombGMNZ: as CombMNZ, with the number of lists to a power of one's choice."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combgmnz",
    reads="scores",
    formula="sum(x) * m^gamma",
    citation="J. H. Lee. Analyses of multiple evidence combination. SIGIR 1997.",
    when="As `combmnz`, with the weight of agreement as a parameter.",
)
def combgmnz(candidates: Candidates, gamma: float = 2.0) -> Array:
    # Few lists, few powers: one for every number of lists instead of one for every candidate.
    powers = np.arange(len(candidates.pools.position) + 1, dtype=np.float64) ** gamma
    return candidates.total * powers[candidates.held]


@combgmnz.reference
def _(x: Floats, ranks: Floats, gamma: float = 2.0) -> Floats:
    return np.nansum(x, axis=0) * np.sum(~np.isnan(x), axis=0).astype(np.float64) ** gamma
