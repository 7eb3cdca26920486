"""Counts per label, for metrics that are means over labels: of chosen columns only, since labels are many.

Of a fold, a view and a column the counts are one vector: `width` of them for every label, in the order of the index:
the texts that carry the label and then, for every cut-off, the texts that have it between the cut-off before and this
one, of those that carry it, and of all. Workers send what they have counted so far whenever that has grown to
ENTRIES; whoever adds the vectors up keeps only the sums over labels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusion.kernel.blocks import PoolView, TextBlock
from fusion.kernel.compiled import compiled
from fusion.registry import METRICS, LabelMetric
from fusion.types import Array, Int32s, Ints

ENTRIES = 1_000_000
"""Counts that a worker holds back at most: 16 MB."""


class Listed(NamedTuple):
    """Labels among the first k of texts in one view and column."""

    text: Ints
    label: Int32s
    rank: Int32s


class BestLabels:
    """The first k labels of every text in chosen columns, gathered while texts are ranked."""

    def __init__(self, columns: Sequence[int], k: int) -> None:
        self.columns = frozenset(columns)
        self.k = k
        self._gathered: dict[tuple[str, int], list[Listed]] = defaultdict(list)

    def add(self, pool_view: PoolView, first: int, column: int, scores: Array, key: Int32s | None = None) -> None:
        """The candidates of a block of texts, the first of which is `first`; those without a score (NaN, -inf) are not
        listed. Of equal scores the one with the greater key comes first, or without keys the lower label id."""
        offset, taken = pool_view.offset, pool_view.take(scores)
        keys = np.empty(0, np.int32) if key is None else pool_view.take(key)
        chosen, rank, sizes = _best(taken, keys, offset, self.k)
        candidate = chosen if pool_view.member is None else pool_view.member[chosen]
        text = np.repeat(pool_view.pools.source, sizes) + first
        self._gathered[pool_view.view, column].append(Listed(text, pool_view.pools.label[candidate], rank))

    def add_list(self, pool_view: PoolView, first: int, column: int, position: Int32s) -> None:
        """The same of a single list, in which every candidate of the view has a position, or -1."""
        entry = np.flatnonzero((position >= 0) & (position < self.k))
        pool = np.searchsorted(pool_view.offset, entry, side="right") - 1
        text = pool_view.pools.source[pool] + first
        listed = Listed(text, pool_view.pools.label[entry], position[entry] + np.int32(1))
        self._gathered[pool_view.view, column].append(listed)

    def of(self, view: str, column: int) -> Listed:
        gathered = self._gathered[view, column]
        nothing = Listed(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
        return Listed(*(np.concatenate(arrays) for arrays in zip(nothing, *gathered, strict=True)))


class LabelCounts:
    """Counts of labels that wait to be sent, by fold, view and column."""

    def __init__(self, cutoffs: Sequence[int]) -> None:
        self.cutoffs = sorted(set(cutoffs))
        self._waiting: dict[tuple[int, str, int], list[Ints]] = defaultdict(list)
        self.entries = 0

    @property
    def width(self) -> int:
        return 1 + 2 * len(self.cutoffs)

    def add(self, key: tuple[int, str, int], carried: Ints, listed: Ints, rank: Int32s, hit: Array) -> None:
        """Labels by their places in the index: those that texts carry, and those listed, with their ranks and whether
        the text carries them. Labels beyond the index are left out by the caller."""
        cutoff = np.searchsorted(self.cutoffs, rank)
        of_hits = listed[hit] * self.width + 1 + 2 * cutoff[hit]
        places = [carried * self.width, of_hits, listed * self.width + 2 + 2 * cutoff]
        self._waiting[key] += places
        self.entries += sum(map(len, places))

    def packed(self) -> Iterator[tuple[tuple[int, str, int], Ints, Ints]]:
        """All that waits: which vector, the places in it, and the counts there."""
        for key, waiting in self._waiting.items():
            places = np.concatenate(waiting)
            if places.max(initial=0) > 4 * len(places):
                yield (key, *np.unique(places, return_counts=True))
            else:
                counts = np.bincount(places)
                yield key, np.flatnonzero(counts), counts[counts > 0]
        self._waiting.clear()
        self.entries = 0


def label_sums(counts: Ints, cutoffs: int) -> list[float]:
    """From a vector of counts to the number of labels that texts carry and, for every metric of labels and every
    cut-off, the sum over these labels. The sums are exact, hence the same however the texts were spread."""
    width = 1 + 2 * cutoffs
    of_label = np.append(counts, np.zeros(-len(counts) % width, np.int64)).reshape(-1, width)
    of_label = of_label[of_label[:, 0] > 0]
    hits, listed = (np.cumsum(of_label[:, begin::2], axis=1) for begin in (1, 2))
    sums = [float(len(of_label))]
    for entry in METRICS:
        if isinstance(entry, LabelMetric):
            for c in range(cutoffs):
                values = entry.of_labels(hits[:, c], listed[:, c], of_label[:, 0])
                sums.append(math.fsum(np.asarray(values, np.float64)))
    return sums


def label_values(sums: Sequence[float], cutoffs: Sequence[int]) -> dict[tuple[str, int], float | None]:
    """By metric and cut-off, the means behind `label_sums`; None without labels."""
    names = [entry.name for entry in METRICS if isinstance(entry, LabelMetric)]
    keys = [(name, k) for name in names for k in cutoffs]
    return {key: total / sums[0] if sums[0] else None for key, total in zip(keys, sums[1:], strict=True)}


def carried_by(texts: TextBlock, listed: Listed) -> Array:
    """Whether the text carries each label that is listed for it."""
    start, stop, label = texts.relevant
    carried: Array = _carried(start, stop, label, listed.text, listed.label)
    return carried


@compiled
def _carried(start, stop, relevant, text, label):  # type: ignore[no-untyped-def]
    carried = np.zeros(text.size, np.bool_)
    for j in range(text.size):
        of_text = relevant[start[text[j]] : stop[text[j]]]
        place = np.searchsorted(of_text, label[j])
        carried[j] = place < of_text.size and of_text[place] == label[j]
    return carried


@compiled
def _best(scores, key, offset, k):  # type: ignore[no-untyped-def]
    """The first k candidates of every pool, their ranks, and the number of them per pool."""
    pools = offset.size - 1
    chosen = np.empty(min(scores.size, pools * k), np.int64)
    rank = np.empty(chosen.size, np.int32)
    sizes = np.zeros(pools, np.int64)
    begin = 0
    for p in range(pools):
        size = 0
        # Of those that are chosen so far.
        lowest = -np.inf
        for c in range(offset[p], offset[p + 1]):
            if not scores[c] > -np.inf or (size == k and scores[c] < lowest):
                continue
            place = size
            while place > 0:
                other = chosen[begin + place - 1]
                ahead = scores[c] > scores[other]
                if scores[c] == scores[other] and key.size:
                    ahead = key[c] > key[other]
                if not ahead:
                    break
                place -= 1
            if place >= k:
                continue
            size = min(size + 1, k)
            for lower in range(size - 1, place, -1):
                chosen[begin + lower] = chosen[begin + lower - 1]
            chosen[begin + place] = c
            lowest = scores[chosen[begin + size - 1]]
        for place in range(size):
            rank[begin + place] = place + 1
        sizes[p] = size
        begin += size
    return chosen[:begin], rank[:begin], sizes
