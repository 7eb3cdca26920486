"""Borda: a label's share of the votes of one list over all candidates.

The candidates that a list missed share what it did not hand out, so every candidate has a score in every list.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.registry import Affine, Statistics, normalization
from fusion.types import Floats


@normalization(
    "borda",
    reads="ranks",
    formula="1 - i / C; 0.5 - (n - 1) / (2 C) if the list lacks the label",
    citation="J. A. Aslam, M. Montague. Models for metasearch. SIGIR 2001.",
    when="As `rank`, where a label that a list lacks should still get a share of the points.",
    standard=True,
    needs_candidates=True,
)
def borda(results: Statistics) -> Affine:
    return results.candidates, -results.candidates


@borda.missing
def _(results: Statistics) -> Any:
    return 0.5 - (results.size - 1) / (2 * results.candidates)


@borda.reference
def _(scores: Floats, candidates: int) -> Floats:
    return 1 - np.arange(len(scores)) / candidates
