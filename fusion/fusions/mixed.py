"""Mixed: the weighted sum of a label's scores times the root of the number of lists that hold it."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "mixed",
    reads="scores",
    formula="sum(w x) * sqrt(m)",
    citation="S. Wu, F. Crestani. Data fusion with estimated weights. CIKM 2002.",
    when="Between `wsum` and `wmnz`: agreement counts, by its square root.",
)
def mixed(candidates: Candidates, *, weights: Floats) -> Array:
    return candidates.weighted_total(weights) * candidates.root_held


@mixed.reference
def _(x: Floats, ranks: Floats, *, weights: Floats) -> Floats:
    return np.nansum(weights[:, None] * x, axis=0) * np.sqrt(np.sum(~np.isnan(x), axis=0))
