"""A normalisation with a parameter in one file: z-scores, cut off at b standard deviations on either side.

Use, once it is imported: bounded+combsum, or bounded(b=1)+combsum. Its place in the package is
fusion/normalizations/bounded.py.
"""

from typing import Any

import numpy as np

from fusion.registry import Affine, ListArithmetic, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "bounded", reads="scores", formula="(s - mean) / std, at most b", citation="Of your own.", by_spread=True
)
def bounded(results: Statistics, b: float = 2.0) -> Affine:
    return results.mean, results.guard(results.std)


@bounded.shaped
def _(x: Any, results: ListArithmetic, b: float = 2.0) -> Any:
    return results.clip(x, -b, b)


@bounded.reference
def _(scores: Floats, candidates: int, b: float = 2.0) -> Floats:
    return np.clip((scores - scores.mean()) / max(scores.std(), EPS), -b, b)
