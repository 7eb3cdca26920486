"""None: the scores as they are, for retrievers whose scores compare."""

from __future__ import annotations

from fusion.registry import Affine, Statistics, normalization
from fusion.types import Floats


@normalization(
    "none",
    reads="scores",
    formula="s",
    citation="E. A. Fox, J. A. Shaw. Combination of multiple searches. TREC-2, 1994.",
    when="Retrievers that already share one scale.",
)
def none(results: Statistics) -> Affine:
    return 0.0, 1.0


@none.reference
def _(scores: Floats, candidates: int) -> Floats:
    return scores
