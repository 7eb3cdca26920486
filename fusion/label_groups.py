"""Head and tail: which labels are frequent and which are rare."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from fusion.types import Array

TAIL, HEAD, ALL = "tail", "head", "all"


def head_size(labels: int, share: float = 0.2) -> int:
    """The number of head labels by the Pareto rule: ceil(share * labels), in exact arithmetic."""
    return math.ceil(Fraction(str(share)) * labels)


def pareto_groups(label_ids: Array, frequencies: Array, share: float = 0.2) -> Array:
    """`head` for the most frequent labels (ties by label id ascending), `tail` for the others."""
    order = np.lexsort((label_ids, -np.asarray(frequencies)))
    groups = np.full(len(label_ids), TAIL, dtype=object)
    groups[order[: head_size(len(label_ids), share)]] = HEAD
    return groups


def frequency_bands(label_ids: Array, frequencies: Array, bands: int = 10) -> Array:
    """The band of each label, from 0 for the rarest labels to bands - 1; bands of as good as equal size."""
    order = np.lexsort((-np.asarray(label_ids), frequencies))
    band = np.empty(len(order), np.int8)
    band[order] = np.arange(len(order)) * bands // max(len(order), 1)
    return band
