"""Ranked lists of items, as all retrievers return them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fusion.kernel.ranking import top
from fusion.types import Array, Int32s, Ints, Singles


class Ranked(NamedTuple):
    """Ranked lists one after another: list i holds `item[offset[i] : offset[i + 1]]`, best first, and their scores.

    With g groups, the list of query q and group j is number q * g + j.
    """

    offset: Ints
    item: Int32s
    score: Singles


def frozen(array: Array) -> Array:
    """The same array, not to be written: one compiled version then serves mapped files and arrays in memory."""
    view = array.view()
    view.flags.writeable = False
    return view


def interleaved(parts: Sequence[Ranked]) -> Ranked:
    """The lists number 0 of all parts, one after the other, then their lists number 1, and so on."""
    sizes = np.stack([np.diff(part.offset) for part in parts], axis=1)
    offset = np.concatenate(([0], np.cumsum(sizes.ravel())))
    item, score = np.empty(offset[-1], np.int32), np.empty(offset[-1], np.float32)
    for number, part in enumerate(parts):
        size = sizes[:, number]
        inside = np.arange(len(part.item)) - np.repeat(part.offset[:-1], size)
        place = np.repeat(offset[number : -1 : len(parts)], size) + inside
        item[place], score[place] = part.item, part.score
    return Ranked(offset, item, score)


def merged(parts: Sequence[Ranked], n: int) -> Ranked:
    """The n best of the lists with the same number in all parts. Of equal scores, the one of the earlier part wins."""
    if len(parts) == 1:
        return parts[0]
    pool = interleaved(parts)
    chosen, begin = top(pool.score, pool.offset[:: len(parts)], n)
    return Ranked(begin, pool.item[chosen], pool.score[chosen])


def best_labels(label: Int32s, score: Singles, offset: Ints, group: Array, groups: int, n: int) -> Ranked:
    """The n best labels of each group for texts whose labels are listed in any order; `group` is that of each label.

    Labels are ordered by score descending, then by label id ascending.
    """
    text = np.repeat(np.arange(len(offset) - 1), np.diff(offset))
    number = text * groups + group[label]
    order = np.lexsort((label, number))
    pools = np.searchsorted(number[order], np.arange((len(offset) - 1) * groups + 1))
    chosen, begin = top(score[order], pools, n)
    return Ranked(begin, label[order][chosen], score[order][chosen])
