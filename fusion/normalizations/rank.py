"""Rank: evenly spaced scores from 1 down to 1/n."""

from __future__ import annotations

import numpy as np

from fusion.registry import Affine, Statistics, normalization
from fusion.types import Floats


@normalization(
    "rank",
    reads="ranks",
    formula="1 - i / n",
    citation="M. E. Renda, U. Straccia. Web metasearch: rank vs. score based rank aggregation methods. SAC 2003.",
    when="Scores that cannot be trusted beyond their order.",
    standard=True,
)
def rank(results: Statistics) -> Affine:
    return results.size, -results.size


@rank.reference
def _(scores: Floats, candidates: int) -> Floats:
    return 1 - np.arange(len(scores)) / len(scores)
