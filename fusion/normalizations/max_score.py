"""Max: the scores of a list in units of the best one. Without meaning where the best one is not positive."""

from __future__ import annotations

from fusion.registry import Affine, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "max",
    reads="scores",
    formula="s / max(max, eps)",
    citation="J. H. Lee. Analyses of multiple evidence combination. SIGIR 1997.",
    when="Scores that start at a meaningful 0, such as BM25 and cosines above 0.",
    standard=True,
)
def max_score(results: Statistics) -> Affine:
    return 0.0, results.guard(results.high)


@max_score.reference
def _(scores: Floats, candidates: int) -> Floats:
    return scores / max(scores.max(), EPS)
