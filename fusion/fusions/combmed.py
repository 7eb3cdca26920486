"""CombMED: the median of a label's scores."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combmed",
    reads="scores",
    formula="median(x)",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="Three or more retrievers, one of which is sometimes far off.",
    standard=True,
)
def combmed(candidates: Candidates) -> Array:
    return candidates.median


@combmed.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.nanmedian(x, axis=0)
