"""Weighted sum: the sum of a label's scores, each times the weight of its list."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "wsum",
    reads="scores",
    formula="sum(w x)",
    citation="C. C. Vogt, G. W. Cottrell. Fusion via a linear combination of scores. Information Retrieval 1999.",
    when="Retrievers of unequal quality, with weights known or tuned on other texts.",
)
def wsum(candidates: Candidates, *, weights: Floats) -> Array:
    return candidates.weighted_total(weights)


@wsum.reference
def _(x: Floats, ranks: Floats, *, weights: Floats) -> Floats:
    return np.nansum(weights[:, None] * x, axis=0)
