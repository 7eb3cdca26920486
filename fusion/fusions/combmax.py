"""CombMAX: the highest of a label's scores."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combmax",
    reads="scores",
    formula="max(x)",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="Retrievers that are each right about different texts, and know when they are.",
    standard=True,
)
def combmax(candidates: Candidates) -> Array:
    return candidates.high


@combmax.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.nanmax(x, axis=0)
