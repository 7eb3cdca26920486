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
