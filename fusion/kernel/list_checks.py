"""What can be wrong with ranked lists, seen in one compiled pass."""

from __future__ import annotations

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.types import Array, Floats, Int32s, Ints

UNUSABLE, UNSORTED, REPEATED, UNGROUPED, WRONG_GROUP = 1, 2, 4, 8, 16
LARGEST = 1e150
"""Scores beyond it have squares, and sums of squares, that no double holds."""


def check_lists(offset: Ints, label: Int32s, score: Floats, group: Array, expected: Array) -> Array:
    """What is wrong with each list, as flags; label repetitions are seen only between equal scores."""
    return _check_lists(offset, label, score, group, expected)


@compiled
def _check_lists(offset, label, score, group, expected):  # type: ignore[no-untyped-def]
    flags = np.zeros(offset.size - 1, np.uint8)
    for row in range(offset.size - 1):
        seen = 0
        for e in range(offset[row], offset[row + 1]):
            # False for NaN, too.
            if not abs(score[e]) <= LARGEST:
                seen |= UNUSABLE
            if e > offset[row]:
                if score[e] > score[e - 1]:
                    seen |= UNSORTED
                elif score[e] == score[e - 1]:
                    if label[e] < label[e - 1]:
                        seen |= UNSORTED
                    elif label[e] == label[e - 1]:
                        seen |= REPEATED
            if group.size:
                if group[e] < 0:
                    seen |= UNGROUPED
                elif expected[row] >= 0 and group[e] != expected[row]:
                    seen |= WRONG_GROUP
        flags[row] = seen
    return flags
