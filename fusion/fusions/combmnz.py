"""CombMNZ: the sum of a label's scores times the number of lists that hold it."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combmnz",
    reads="scores",
    formula="sum(x) * m",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="Retrievers of similar quality whose agreement is a strong sign; the paper's best with `zmuv`.",
    standard=True,
)
def combmnz(candidates: Candidates) -> Array:
    return candidates.total * candidates.held


@combmnz.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.nansum(x, axis=0) * np.sum(~np.isnan(x), axis=0)
