"""Means and standard deviations over folds, and which cells are best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class MeanStd(NamedTuple):
    """The mean over the folds and the standard deviation (ddof = 1; NaN for one fold)."""

    mean: float
    std: float


def mean_std(values: Sequence[float]) -> MeanStd:
    if not values:
        return MeanStd(math.nan, math.nan)
    return MeanStd(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)
