"""CombSUM: the sum of a label's scores."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combsum",
    reads="scores",
    formula="sum(x)",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="A good first choice: agreement counts, but a strong score in one list can win.",
    standard=True,
)
def combsum(candidates: Candidates) -> Array:
    return candidates.total


@combsum.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.nansum(x, axis=0)
