"""Weighted MNZ: the sum of a label's scores times the weights of the lists that hold it."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "wmnz",
    reads="scores",
    formula="sum(x) * sum(w)",
    citation="S. Wu, F. Crestani. Data fusion with estimated weights. CIKM 2002.",
    when="As `combmnz`, counting a good retriever's vote for more.",
)
def wmnz(candidates: Candidates, *, weights: Floats) -> Array:
    return candidates.total * candidates.weight_held(weights)


@wmnz.reference
def _(x: Floats, ranks: Floats, *, weights: Floats) -> Floats:
    return np.nansum(x, axis=0) * np.sum(weights[:, None] * ~np.isnan(x), axis=0)
