"""The nearest documents of many queries, from the postings of an index.

The postings of a term are the documents that hold it, each with what the term is worth there (for BM25, idf times
the saturated term frequency). A query's score for a document is

    score(query, document) = sum over the query's tokens t, repetitions included, of worth(t, document)

added up in double precision and rounded to float32. Documents are ordered by score descending, then by number
ascending, and those without a positive score are not found at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.retrieval.ranked import Ranked, frozen
from fusion.types import Array, Int32s, Ints, Singles


class Postings(NamedTuple):
    """Term t's documents are `document[start[t] : start[t + 1]]`, and what it is worth there `worth[...]`."""

    start: Ints
    document: Int32s
    worth: Singles


def nearest(postings: Postings, group: Array, groups: int, token: Int32s, offset: Ints, n: int) -> Ranked:
    """The n best documents of each group, for every query.

    `group` holds the group of every document (0 to groups - 1); query q's tokens, as term numbers in any order,
    are `token[offset[q] : offset[q + 1]]`.
    """
    start, document, worth = frozen(postings.start), frozen(postings.document), frozen(postings.worth)
    return Ranked(*_nearest(start, document, worth, frozen(group), groups, token, offset, n))


@compiled
def _nearest(start, document, worth, group, groups, token, offset, n):  # type: ignore[no-untyped-def]
    queries = offset.size - 1
    ends = np.zeros(queries * groups + 1, np.int64)
    items = np.empty(queries * groups * n, np.int32)
    scores = np.empty(queries * groups * n, np.float32)
    total = np.zeros(group.size, np.float64)
    heap_item = np.empty((groups, n), np.int32)
    heap_score = np.empty((groups, n), np.float32)
    size = np.zeros(groups, np.int64)
    bar = np.zeros(groups, np.float32)
    end = 0
    for q in range(queries):
        # In the order of the terms, so that the sum does not depend on the order of the words.
        terms = np.sort(token[offset[q] : offset[q + 1]])
        place = 0
        while place < terms.size:
            term = terms[place]
            times = 1
            while place + times < terms.size and terms[place + times] == term:
                times += 1
            place += times
            first, last = start[term], start[term + 1]
            # A term in more than half of the documents is worth nothing in any of them.
            if first < last and worth[first] > 0:
                for e in range(first, last):
                    total[document[e]] += times * np.float64(worth[e])

        size[:] = 0
        bar[:] = 0
        lowest = 0.0
        for d in range(total.size):
            # Most documents end here. Rounding keeps the order, so none of them could pass the bar below.
            if total[d] > lowest:
                score, g = np.float32(total[d]), group[d]
                if score > bar[g]:
                    if size[g] < n:
                        _push(heap_item[g], heap_score[g], size[g], np.int32(d), score)
                        size[g] += 1
                    else:
                        _sink(heap_item[g], heap_score[g], size[g], np.int32(d), score)
                    if size[g] == n:
                        bar[g] = heap_score[g, 0]
                        lowest = np.float64(bar.min())
        total[:] = 0
        for g in range(groups):
            # The heap gives the worst first.
            for left in range(size[g] - 1, -1, -1):
                items[end + left] = heap_item[g, 0]
                scores[end + left] = heap_score[g, 0]
                _sink(heap_item[g], heap_score[g], left, heap_item[g, left], heap_score[g, left])
            end += size[g]
            ends[q * groups + g + 1] = end
    return ends, items[:end].copy(), scores[:end].copy()


@compiled
def _worse(item, score, other_item, other_score):  # type: ignore[no-untyped-def]
    return score < other_score or (score == other_score and item > other_item)


@compiled
def _push(items, scores, place, item, score):  # type: ignore[no-untyped-def]
    """Add an entry at the end of a heap whose root is the worst."""
    while place > 0:
        parent = (place - 1) // 2
        if not _worse(item, score, items[parent], scores[parent]):
            break
        items[place], scores[place] = items[parent], scores[parent]
        place = parent
    items[place], scores[place] = item, score


@compiled
def _sink(items, scores, size, item, score):  # type: ignore[no-untyped-def]
    """Replace the root of a heap of `size` entries."""
    place = 0
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _worse(items[child + 1], scores[child + 1], items[child], scores[child]):
            child += 1
        if not _worse(items[child], scores[child], item, score):
            break
        items[place], scores[place] = items[child], scores[child]
        place = child
    items[place], scores[place] = item, score
