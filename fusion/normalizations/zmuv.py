"""Zero mean, unit variance: the scores of a list as distances from their mean in standard deviations."""

from __future__ import annotations

from fusion.registry import Affine, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "zmuv",
    reads="scores",
    formula="(s - mean) / max(population std, eps)",
    citation="M. Montague, J. A. Aslam. Relevance score normalization for metasearch. CIKM 2001.",
    when="Retrievers whose scores spread differently; the paper's best with `combmnz`.",
    standard=True,
    by_spread=True,
)
def zmuv(results: Statistics) -> Affine:
    return results.mean, results.guard(results.std)


@zmuv.reference
def _(scores: Floats, candidates: int) -> Floats:
    return (scores - scores.mean()) / max(scores.std(), EPS)
