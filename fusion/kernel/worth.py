"""Worth by place: the score of a label in a list where only its place there counts, and hits by place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.pools import Lists, Relevant
from fusion.types import Array, Floats, Ints


def worth_matrix(offset: Ints, position: Array, size: Ints, rows: Ints, table: Floats, missing: float) -> Floats:
    """table[rows[pool, list], place] of every candidate (lists x candidates): `missing` where a list lacks it, NaN if
    there is no list."""
    return _worth_matrix(offset, position, size, rows, table, missing)


class ListHits(NamedTuple):
    """What the lists of each retriever held: see fusion.learning.Evidence, with a row per retriever."""

    queries: Ints
    sizes: Ints
    hits: Ints
    precision: Ints


def count_list_hits(lists: Lists, relevant: Relevant, counted: Array, unit: float) -> ListHits:
    """The lists of the texts that `counted` marks."""
    size = lists.stop - lists.start
    longest = int(size[counted].max(initial=0))
    retrievers = size.shape[1]
    made = ListHits(
        np.full(retrievers, counted.sum(), np.int64),
        np.zeros((retrievers, longest + 1), np.int64),
        np.zeros((retrievers, longest * (longest + 1) // 2), np.int64),
        np.zeros(retrievers, np.int64),
    )
    _count(lists.start, lists.stop, lists.label, *relevant, counted, made.sizes, made.hits, made.precision, unit)
    return made


@compiled
def _worth_matrix(offset, position, size, rows, table, missing):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    out = np.full((retrievers, candidates), np.nan)
    for p in range(offset.size - 1):
        for r in range(retrievers):
            if size[p, r] == 0:
                continue
            worth = table[rows[p, r]]
            for c in range(offset[p], offset[p + 1]):
                out[r, c] = worth[position[r, c]] if position[r, c] >= 0 else missing
    return out


@compiled
def _count(start, stop, label, relevant_start, relevant_stop, relevant_label, counted, sizes, hits, precision, unit):  # type: ignore[no-untyped-def]
    for t in range(counted.size):
        if not counted[t]:
            continue
        relevant = relevant_label[relevant_start[t] : relevant_stop[t]]
        for r in range(start.shape[1]):
            size = stop[t, r] - start[t, r]
            if size == 0:
                continue
            sizes[r, size] += 1
            first = size * (size - 1) // 2
            hits_so_far = 0
            total = 0.0
            for place in range(size):
                wanted = label[start[t, r] + place]
                at = np.searchsorted(relevant, wanted)
                if at < relevant.size and relevant[at] == wanted:
                    hits_so_far += 1
                    total += hits_so_far / (place + 1)
                    hits[r, first + place] += 1
            if hits_so_far:
                precision[r] += np.int64(np.rint(total / relevant.size / unit))
