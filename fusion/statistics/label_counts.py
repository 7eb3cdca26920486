"""Counts per label, for metrics that are means over labels: of chosen columns only, since labels are many.

Of a fold, a view and a column the counts are one vector: `width` of them for every label, in the order of the index:
the texts that carry the label and then, for every cut-off, the texts that have it between the cut-off before and this
one, of those that carry it, and of all. Workers send what they have counted so far whenever that has grown to
ENTRIES; what adds the vectors up keeps only the sums over labels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.pools import Relevant
from fusion.kernel.texts import PoolView
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

    def add(self, pool_view: PoolView, text: Ints, column: int, scores: Array, key: Int32s | None = None) -> None:
        """The candidates of a text block; `text` is that of every pool. Those without a score (NaN, -inf) are not
        listed. Of equal scores the one with the greater key comes first, or without keys the lower label id."""
        keys = np.empty(0, np.int32) if key is None else pool_view.take(key)
        label = pool_view.take(pool_view.pools.label)
        listed = _best(pool_view.take(scores), keys, pool_view.offset, text, label, self.k)
        self._gathered[pool_view.view, column].append(Listed(*listed))

    def add_list(self, pool_view: PoolView, text: Ints, column: int, position: Int32s) -> None:
        """The same of a single list, in which every candidate of the view has a position, or -1."""
        listed = _first_listed(position, pool_view.offset, text, pool_view.pools.label, self.k)
        self._gathered[pool_view.view, column].append(Listed(*listed))

    def of(self, view: str, column: int) -> Listed:
        gathered = self._gathered[view, column]
        nothing = Listed(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
        return Listed(*(np.concatenate(arrays) for arrays in zip(nothing, *gathered, strict=True)))


class LabelCounts:
    """Counts of labels that wait to be sent, by fold, view and column."""

    def __init__(self, cutoffs: Sequence[int]) -> None:
        self.cutoffs = sorted(set(cutoffs))
        self._cutoff_of_rank = np.searchsorted(self.cutoffs, np.arange(self.cutoffs[-1] + 1))
        self._waiting: dict[tuple[int, str, int], list[Ints]] = defaultdict(list)
        self.entries = 0

    @property
    def width(self) -> int:
        return 1 + 2 * len(self.cutoffs)

    def add_carried(self, key: tuple[int, str, int], carried: Ints) -> None:
        """Labels that texts carry, by their places in the index."""
        self._wait(key, carried.astype(np.int64) * self.width)

    def add_listed(
        self, key: tuple[int, str, int], listed: Listed, place: Ints, labels: int, counted: Array, relevant: Relevant
    ) -> None:
        """Labels that are listed for texts, with their places in an index of `labels` labels (beyond: not in it),
        of the texts that `counted` marks; and the relevant labels of each text."""
        self._wait(key, _listed_places(*listed, place, labels, counted, *relevant, self._cutoff_of_rank))

    def _wait(self, key: tuple[int, str, int], places: Ints) -> None:
        self._waiting[key].append(places)
        self.entries += len(places)

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
                sums.append(math.fsum(np.asarray(values, np.float64).tolist()))
    return sums


def label_values(sums: Sequence[float], cutoffs: Sequence[int]) -> dict[tuple[str, int], float | None]:
    """By metric and cut-off, the means behind `label_sums`; None without labels."""
    names = [entry.name for entry in METRICS if isinstance(entry, LabelMetric)]
    keys = [(name, k) for name in names for k in cutoffs]
    return {key: total / sums[0] if sums[0] else None for key, total in zip(keys, sums[1:], strict=True)}


@compiled
def _listed_places(  # type: ignore[no-untyped-def]
    text, label, rank, place, labels, counted, start, stop, relevant, cutoff
):
    """The place of everything that is counted, once for every count: see the module's docstring."""
    width = 1 + 2 * (cutoff[-1] + 1)
    places = np.empty(2 * text.size, np.int64)
    end = 0
    for j in range(text.size):
        t = text[j]
        if place[j] >= labels or not counted[t]:
            continue
        first = place[j] * width + 1 + 2 * cutoff[rank[j]]
        places[end] = first + 1
        end += 1
        for r in range(start[t], stop[t]):
            if relevant[r] >= label[j]:
                if relevant[r] == label[j]:
                    places[end] = first
                    end += 1
                break
    return places[:end]


@compiled
def _first_listed(position, offset, text, label, k):  # type: ignore[no-untyped-def]
    """Text, label and rank of the candidates at the first k positions."""
    pools = offset.size - 1
    texts = np.empty(min(position.size, pools * k), np.int64)
    labels = np.empty(texts.size, np.int32)
    ranks = np.empty(texts.size, np.int32)
    end = 0
    for p in range(pools):
        for c in range(offset[p], offset[p + 1]):
            if 0 <= position[c] < k:
                texts[end], labels[end], ranks[end] = text[p], label[c], position[c] + 1
                end += 1
    return texts[:end], labels[:end], ranks[:end]


@compiled
def _best(scores, key, offset, text, label, k):  # type: ignore[no-untyped-def]
    """Text, label and rank of the first k candidates of every pool."""
    pools = offset.size - 1
    texts = np.empty(min(scores.size, pools * k), np.int64)
    labels = np.empty(texts.size, np.int32)
    rank = np.empty(texts.size, np.int32)
    chosen, best = np.empty(k, np.int64), np.empty(k, scores.dtype)
    end = 0
    for p in range(pools):
        size = 0
        for c in range(offset[p], offset[p + 1]):
            score = scores[c]
            if size < k:
                # Neither NaN nor -inf.
                if not score > -np.inf:
                    continue
                size += 1
            elif not score > best[k - 1] and not (key.size and score == best[k - 1] and key[c] > key[chosen[k - 1]]):
                continue
            place = size - 1
            while place > 0 and (
                score > best[place - 1] or (key.size and score == best[place - 1] and key[c] > key[chosen[place - 1]])
            ):
                best[place], chosen[place] = best[place - 1], chosen[place - 1]
                place -= 1
            best[place], chosen[place] = score, c
        for place in range(size):
            texts[end], labels[end], rank[end] = text[p], label[chosen[place]], place + 1
            end += 1
    return texts[:end], labels[:end], rank[:end]
