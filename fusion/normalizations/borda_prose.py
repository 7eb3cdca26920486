"""Borda as the paper's prose has it: from 1 for the best label down to 0 for the last of all candidates.

A label that a list missed has no score there. The paper's tables come from `borda`, not from this form.
"""

from __future__ import annotations

import numpy as np

from fusion.registry import Affine, Statistics, normalization
from fusion.types import EPS, Floats


@normalization(
    "borda-prose",
    reads="ranks",
    formula="(C - 1 - i) / max(C - 1, eps)",
    citation="J. C. de Borda. Mémoire sur les élections au scrutin. 1781.",
    when="To compare with the prose of the paper; otherwise prefer `borda`.",
    needs_candidates=True,
)
def borda_prose(results: Statistics) -> Affine:
    return results.candidates - 1, -results.guard(results.candidates - 1)


@borda_prose.reference
def _(scores: Floats, candidates: int) -> Floats:
    return (candidates - 1 - np.arange(len(scores))) / max(candidates - 1, EPS)
