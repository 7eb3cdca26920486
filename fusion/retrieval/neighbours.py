"""The nearest documents of many queries, and the labels that follow from them.

The postings of a term are the documents that hold it, each with what the term is worth there (for BM25, idf times
the saturated term frequency). A query's score for a document is

    score(query, document) = base(document) + sum over the query's terms t of times(t) worth(t, document)

added up in double precision and rounded to float32. Documents are ordered by score descending, then by number
ascending. Without a base, documents without a positive score are not found at all.

From the training texts that a text resembles to scores of labels.

    score(text, label) = max (or sum) of score(text, t) over the retrieved training texts t that carry the label

Labels are ordered by score descending, then by label id ascending, and each label group keeps its first n.
"""

from __future__ import annotations

from itertools import islice
from typing import Literal, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.ranking import top
from fusion.retrieval.bags import Bags
from fusion.retrieval.ranked import Ranked, frozen
from fusion.types import Array, Floats, Int32s, Ints, Singles


class Postings(NamedTuple):
    """Term t's documents are `document[start[t] : start[t + 1]]`, and what it is worth there `worth[...]`."""

    start: Ints
    document: Int32s
    worth: Singles


def nearest(postings: Postings, group: Array, groups: int, queries: Bags, n: int, base: Floats | None = None) -> Ranked:
    """The n best documents of each group, for every query, which has distinct terms in ascending order.

    `group` holds the group of every document (0 to groups - 1). A document with the base -inf is never found.
    """
    start, document, worth = frozen(postings.start), frozen(postings.document), frozen(postings.worth)
    floor = 0.0 if base is None else -np.inf
    first = frozen(np.zeros(group.size) if base is None else base)
    return Ranked(*_nearest(start, document, worth, frozen(group), groups, first, floor, *queries, n))


@compiled
def _nearest(  # type: ignore[no-untyped-def]
    start, document, worth, group, groups, base, floor, offset, token, times, n
):
    queries = offset.size - 1
    ends = np.zeros(queries * groups + 1, np.int64)
    items = np.empty(queries * groups * n, np.int32)
    scores = np.empty(queries * groups * n, np.float32)
    total = np.empty(group.size, np.float64)
    heap_item = np.empty((groups, n), np.int32)
    heap_score = np.empty((groups, n), np.float32)
    size = np.zeros(groups, np.int64)
    bar = np.zeros(groups, np.float32)
    end = 0
    for q in range(queries):
        total[:] = base
        for t in range(offset[q], offset[q + 1]):
            first, last = start[token[t]], start[token[t] + 1]
            # A term in more than half of the documents is worth nothing in any of them.
            if first < last and worth[first] != 0:
                for e in range(first, last):
                    total[document[e]] += np.float64(times[t]) * np.float64(worth[e])

        size[:] = 0
        bar[:] = floor
        lowest = floor
        for d in range(total.size):
            # Most documents end here. Rounding keeps the order, so none of them could pass the bar below.
            if total[d] > lowest:
                score, g = np.float32(total[d]), group[d]
                if score > bar[g]:
                    if size[g] < n:
                        push(heap_item[g], heap_score[g], size[g], np.int32(d), score)
                        size[g] += 1
                    else:
                        sink(heap_item[g], heap_score[g], size[g], np.int32(d), score)
                    if size[g] == n:
                        bar[g] = heap_score[g, 0]
                        lowest = np.float64(bar.min())
        for g in range(groups):
            # The heap gives the worst first.
            for left in range(size[g] - 1, -1, -1):
                items[end + left] = heap_item[g, 0]
                scores[end + left] = heap_score[g, 0]
                sink(heap_item[g], heap_score[g], left, heap_item[g, left], heap_score[g, left])
            end += size[g]
            ends[q * groups + g + 1] = end
    return ends, items[:end].copy(), scores[:end].copy()


@compiled
def _worse(item, score, other_item, other_score):  # type: ignore[no-untyped-def]
    return score < other_score or (score == other_score and item > other_item)


@compiled
def push(items: Array, scores: Array, place: int, item: int, score: float) -> None:
    """Add an entry at the end of a heap whose root is the worst."""
    while place > 0:
        parent = (place - 1) // 2
        if not _worse(item, score, items[parent], scores[parent]):
            break
        items[place], scores[place] = items[parent], scores[parent]
        place = parent
    items[place], scores[place] = item, score


@compiled
def sink(items: Array, scores: Array, size: int, item: int, score: float) -> None:
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


Aggregation = Literal["max", "sum"]


class TextLabels(NamedTuple):
    """The labels of training text t are `label[offset[t] : offset[t + 1]]`."""

    offset: Ints
    label: Int32s


class Neighbours(NamedTuple):
    """The training texts that one text resembles most, best first, with their scores, and the labels of all of them."""

    text: Int32s
    score: Singles
    carried: TextLabels

    def carrying(self, label: int, most: int) -> list[tuple[int, float]]:
        """The best of those that carry a label, with their scores."""
        offset, carried = self.carried
        some = (n for n, text in enumerate(self.text) if label in carried[offset[text] : offset[text + 1]])
        return [(int(self.text[n]), float(self.score[n])) for n in islice(some, most)]


def label_scores(
    neighbours: Ranked, carried: TextLabels, group: Array, groups: int, aggregation: Aggregation, n: int
) -> Ranked:
    """The n best labels of each group, for every list of neighbours.

    `group` holds the group of every label, 0 to groups - 1. Sums are taken in double precision, from the best
    neighbour to the last, and rounded to float32 before they are compared.
    """
    fixed = frozen(carried.offset), frozen(carried.label), frozen(group)
    offset, label, score = _pools(*neighbours, *fixed, groups, aggregation == "sum")
    chosen, begin = top(score, offset, n)
    return Ranked(begin, label[chosen], score[chosen])


@compiled
def _pools(offset, item, score, carried_offset, carried, group, groups, add):  # type: ignore[no-untyped-def]
    """The labels that each list of neighbours carries, by group and label id ascending, with their scores."""
    lists = offset.size - 1
    size = 0
    for e in range(item.size):
        size += carried_offset[item[e] + 1] - carried_offset[item[e]]
    ends = np.zeros(lists * groups + 1, np.int64)
    labels = np.empty(size, np.int32)
    scores = np.empty(size, np.float32)
    total = np.zeros(group.size, np.float64)
    seen = np.zeros(group.size, np.bool_)
    touched = np.empty(size, np.int32)
    end = 0
    for row in range(lists):
        count = 0
        for e in range(offset[row], offset[row + 1]):
            for c in range(carried_offset[item[e]], carried_offset[item[e] + 1]):
                label = carried[c]
                if not seen[label]:
                    seen[label] = True
                    touched[count] = label
                    count += 1
                    total[label] = score[e]
                elif add:
                    total[label] += score[e]
                else:
                    total[label] = max(total[label], np.float64(score[e]))
        carried_labels = np.sort(touched[:count])
        for g in range(groups):
            for label in carried_labels:
                if group[label] == g:
                    labels[end] = label
                    scores[end] = total[label]
                    end += 1
            ends[row * groups + g + 1] = end
        for label in carried_labels:
            seen[label] = False
    return ends, labels[:end].copy(), scores[:end].copy()
