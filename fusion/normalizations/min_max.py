"""Min-max: the scores of a list stretched over [0, 1]."""

from __future__ import annotations

from fusion.registry import Affine, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "min-max",
    reads="scores",
    formula="(s - min) / max(max - min, eps)",
    citation="J. H. Lee. Analyses of multiple evidence combination. SIGIR 1997.",
    when="Scores of any range. Sensitive to one outlier at either end of a list.",
    standard=True,
    by_spread=True,
)
def min_max(results: Statistics) -> Affine:
    return results.low, results.guard(results.high - results.low)


@min_max.reference
def _(scores: Floats, candidates: int) -> Floats:
    return (scores - scores.min()) / max(scores.max() - scores.min(), EPS)
