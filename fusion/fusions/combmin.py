"""CombMIN: the lowest of a label's scores."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "combmin",
    reads="scores",
    formula="min(x)",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="To study agreement; rarely the best choice, since a label of one list keeps its full score.",
    standard=True,
)
def combmin(candidates: Candidates) -> Array:
    return candidates.low


@combmin.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.nanmin(x, axis=0)
