"""Means and standard deviations over folds, and which cells are best."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Text in columns: the first two to the left, numbers to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    aligned = ([word.ljust if i < 2 else word.rjust for i, word in enumerate(line)] for line in lines)
    return "\n".join(
        "  ".join(align(width) for align, width in zip(line, widths, strict=True)).rstrip() for line in aligned
    )
