"""Two results over the same texts, compared by sign blocks, without any text's figures.

Texts are hashed by id into sign blocks, so that a text lies in the same block of both results. With d_b the change of a
block's sum and n_b its texts, the mean change is m = sum(d_b) / sum(n_b). Its interval takes blocks as clusters of
texts: the variance of m is B / (B - 1) * sum((d_b - m n_b)^2) / sum(n_b)^2 over B blocks (the ratio estimator, Cochran
1977), with B - 1 degrees of freedom; with one text per block that is the paired t interval. p comes from random signs
of whole blocks (see random_signs).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from fusion.statistics.random_signs import randomization_p
from fusion.types import Array, Floats, Ints


class BlockChange(NamedTuple):
    """The mean change per text with its 95% interval, and p of random signs."""

    difference: float
    low: float
    high: float
    p: float


def same_texts(texts: tuple[Ints, Ints], prints: tuple[Ints, Ints]) -> Array:
    """The blocks that hold the same texts with the same judgements in both results, by count and fingerprint; blocks
    without texts say nothing."""
    return np.asarray((texts[0] > 0) & (texts[0] == texts[1]) & (prints[0] == prints[1]))


def block_changes(before: Array, after: Array, texts: Ints, unit: float, vectors: int, seed: int) -> list[BlockChange]:
    """The change of each column, from the sums [block, column] of both results, whole numbers of `unit`, and the
    number of texts of each block."""
    change = np.asarray(after - before, np.float64)
    total = texts.sum()
    difference = change.sum(axis=0) / total
    reach = _reach(change - np.outer(texts, difference), float(total))
    # A column of zeros: what is tested is the change against no change.
    columns = np.column_stack([change, np.zeros(len(change))])
    p = randomization_p(columns[None], vectors, seed)[0, :-1, -1]
    return [
        BlockChange(unit * mean, unit * (mean - width), unit * (mean + width), float(chance))
        for mean, width, chance in zip(difference.tolist(), reach.tolist(), p.tolist(), strict=True)
    ]


def _reach(residuals: Floats, total: float) -> Floats:
    """Half the width of the 95% interval; NaN for fewer than two blocks."""
    blocks, columns = residuals.shape
    if blocks < 2:
        return np.full(columns, math.nan)
    error = np.sqrt(blocks / (blocks - 1) * (residuals**2).sum(axis=0)) / total
    return np.asarray(error * stdtrit(blocks - 1, 0.975))
