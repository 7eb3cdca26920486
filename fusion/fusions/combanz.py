"""CombANZ: the mean of a label's scores over the lists that hold it."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combanz",
    reads="scores",
    formula="sum(x) / m",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="Lists that should not be rewarded for agreeing.",
    standard=True,
)
def combanz(candidates: Candidates) -> Array:
    return candidates.total / candidates.held


@combanz.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.nansum(x, axis=0) / np.sum(~np.isnan(x), axis=0)
