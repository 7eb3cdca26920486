"""Sum: the scores of a list, moved to start at 0, as shares of their sum."""

from __future__ import annotations

from fusion.registry import Affine, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "sum",
    reads="scores",
    formula="(s - min) / max(sum(s) - n * min, eps)",
    citation="M. Montague, J. A. Aslam. Relevance score normalization for metasearch. CIKM 2001.",
    when="Lists of different lengths: a short list keeps more weight per label.",
    standard=True,
    by_spread=True,
)
def sum_score(results: Statistics) -> Affine:
    return results.low, results.guard(results.total - results.size * results.low)


@sum_score.reference
def _(scores: Floats, candidates: int) -> Floats:
    return (scores - scores.min()) / max(scores.sum() - len(scores) * scores.min(), EPS)
