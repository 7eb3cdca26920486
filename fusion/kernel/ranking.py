"""Ranking by the one total order (score descending, then label id ascending), and the checks that lists must pass."""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.types import Array, Floats, Int32s, Ints, Singles


def top(fused: Singles, offset: Ints, n: int) -> tuple[Ints, Ints]:
    """The first n candidates of every pool that have a score, best first, and where each pool's begin."""
    scored = ~np.isnan(fused)
    if scored.all():
        return _top(fused, offset, n)
    place = np.flatnonzero(scored)
    chosen, begin = _top(fused[place], np.concatenate(([0], np.cumsum(scored)))[offset], n)
    return place[chosen], begin


@compiled
def list_order(offset: Ints, unsorted: Array, label: Int32s, score: Floats) -> Ints:
    """The order that puts the entries of unsorted lists best first and leaves the other lists alone."""
    order = np.arange(label.size)
    for row in range(offset.size - 1):
        if unsorted[row]:
            first, last = offset[row], offset[row + 1]
            by_label = np.argsort(label[first:last], kind="mergesort")
            by_score = np.argsort(-score[first:last][by_label], kind="mergesort")
            order[first:last] = first + by_label[by_score]
    return order


@compiled
def divide_lists(offset: Ints, divided: Array, group: Array, groups: int) -> tuple[Ints, Ints]:
    """Some lists divided by the group of their entries: each becomes as many lists as there are groups. The offsets of
    the new lists, and the order of the entries in them."""
    rows = offset.size - 1
    new_offset = np.zeros(1 + rows + (groups - 1) * np.count_nonzero(divided), np.int64)
    order = np.arange(group.size)
    place = np.empty(groups, np.int64)
    at = 0
    for row in range(rows):
        first, last = offset[row], offset[row + 1]
        if not divided[row]:
            at += 1
            new_offset[at] = last
            continue
        place[:] = 0
        for e in range(first, last):
            place[group[e]] += 1
        begin = first
        for g in range(groups):
            size = place[g]
            place[g] = begin
            begin += size
            at += 1
            new_offset[at] = begin
        for e in range(first, last):
            order[place[group[e]]] = e
            place[group[e]] += 1
    return new_offset, order


@compiled
def relevant_ranks(fused: Singles, offset: Ints, relevant: Ints, relevant_offset: Ints) -> Int32s:
    """The 1-based rank of every relevant candidate in its pool, 0 where it has no score (NaN). Nothing is sorted: those
    above it are counted."""
    ranks = np.empty(relevant.size, np.int32)
    for p in range(offset.size - 1):
        pool = fused[offset[p] : offset[p + 1]]
        for j in range(relevant_offset[p], relevant_offset[p + 1]):
            place = relevant[j] - offset[p]
            score = pool[place]
            if np.isnan(score):
                ranks[j] = 0
                continue
            # One pass in 32-bit integers, the width of the scores, runs in full vectors; ties are rare.
            above, equal = np.int32(0), np.int32(0)
            for c in range(pool.size):
                above = np.int32(above + np.int32(pool[c] > score))
                equal = np.int32(equal + np.int32(pool[c] == score))
            if equal > 1:
                for c in range(place):
                    above += pool[c] == score
            ranks[j] = above + 1
    return ranks


@compiled
def ranks_by_key(scores: Array, key: Int32s, offset: Ints, relevant: Ints, relevant_offset: Ints) -> Int32s:
    """The same, where of equal scores the one with the greater key comes first. Here and below, a candidate without a
    score (NaN) has rank 0."""
    ranks = np.empty(relevant.size, np.int32)
    for p in range(offset.size - 1):
        for j in range(relevant_offset[p], relevant_offset[p + 1]):
            mine, score = key[relevant[j]], scores[relevant[j]]
            above = 0
            for c in range(offset[p], offset[p + 1]):
                above += scores[c] > score or (scores[c] == score and key[c] > mine)
            ranks[j] = 0 if np.isnan(score) else above + 1
    return ranks


@compiled
def tied_ranks(scores: Array, offset: Ints, relevant: Ints, relevant_offset: Ints) -> tuple[Int32s, Int32s]:
    """The best rank that the ties of every relevant candidate allow, and how many candidates share its score."""
    ranks = np.empty(relevant.size, np.int32)
    tied = np.empty(relevant.size, np.int32)
    for p in range(offset.size - 1):
        for j in range(relevant_offset[p], relevant_offset[p + 1]):
            score = scores[relevant[j]]
            above, equal = 0, 0
            for c in range(offset[p], offset[p + 1]):
                above += scores[c] > score
                equal += scores[c] == score
            ranks[j] = 0 if np.isnan(score) else above + 1
            tied[j] = equal
    return ranks, tied


@compiled
def quicksort_ranks(scores: Array, offset: Ints, relevant: Ints, relevant_offset: Ints) -> Int32s:
    """The ranks that numba's quicksort gives, which is what ranx sorts with: equal scores in no particular order."""
    ranks = np.empty(relevant.size, np.int32)
    rank_of = np.zeros(scores.size, np.int32)
    for p in range(offset.size - 1):
        listed = offset[p] + np.flatnonzero(~np.isnan(scores[offset[p] : offset[p + 1]]))
        order = np.argsort(-scores[listed])
        for place in range(order.size):
            rank_of[listed[order[place]]] = place + 1
        for j in range(relevant_offset[p], relevant_offset[p + 1]):
            ranks[j] = rank_of[relevant[j]]
    return ranks


@compiled
def _top(fused, offset, n):  # type: ignore[no-untyped-def]
    pools = offset.size - 1
    begin = np.zeros(pools + 1, np.int64)
    for p in range(pools):
        begin[p + 1] = begin[p] + min(n, offset[p + 1] - offset[p])
    chosen = np.empty(begin[pools], np.int64)
    for p in range(pools):
        # A stable sort keeps equal scores in the order of their label ids.
        order = np.argsort(-fused[offset[p] : offset[p + 1]], kind="mergesort")
        for i in range(begin[p + 1] - begin[p]):
            chosen[begin[p] + i] = offset[p] + order[i]
    return chosen, begin


UNUSABLE, UNSORTED, REPEATED, UNGROUPED, WRONG_GROUP = 1, 2, 4, 8, 16
LARGEST = 1e150
"""Scores beyond it have squares, and sums of squares, that no double holds."""


@compiled
def check_lists(offset: Ints, label: Int32s, score: Floats, group: Array, expected: Array) -> Array:
    """What is wrong with each list, as flags; label repetitions are seen only between equal scores."""
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
