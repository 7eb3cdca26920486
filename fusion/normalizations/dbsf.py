"""Distribution-based: three standard deviations around the mean of a list stretched over [0, 1], the rest clipped."""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.registry import Affine, ListArithmetic, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "dbsf",
    reads="scores",
    formula="(s - mean + 3 std) / max(6 std, eps), at least 0 and at most 1; std: population",
    citation="M. Mazzeschi. Distribution-based score fusion (DBSF), a new approach to vector search ranking. 2023.",
    when="Hybrid search engines that use it (three standard deviations around the mean).",
    by_spread=True,
)
def dbsf(results: Statistics) -> Affine:
    return results.mean - 3 * results.std, results.guard(6 * results.std)


@dbsf.shaped
def _(x: Any, results: ListArithmetic) -> Any:
    return results.clip(x, 0.0, 1.0)


@dbsf.reference
def _(scores: Floats, candidates: int) -> Floats:
    return np.clip((scores - scores.mean() + 3 * scores.std()) / max(6 * scores.std(), EPS), 0, 1)
