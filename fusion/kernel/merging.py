"""Merging: the lists of a text become one pool, in one compiled pass over many texts."""

from __future__ import annotations

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.pools import Lists, ListStatistics, Pools, Relevant


def merge_lists(lists: Lists, relevant: Relevant, keep_all: bool) -> Pools:
    """Merge the lists of every pool. Pools without a relevant candidate are left out unless `keep_all`:
    no ranking of theirs can hold a hit."""
    (source, offset, label, group, score, position, figures, relevant_candidates, relevant_offset, repeated) = (
        _merge_lists(*lists, *relevant, keep_all)
    )
    sizes = np.diff(offset).astype(np.float64)
    size, low, high, total, mean, std = (figures[:, :, f] for f in range(6))
    candidates = np.repeat(sizes[:, None], lists.start.shape[1], axis=1)
    statistics = ListStatistics(size, low, high, total, mean, std, candidates)
    return Pools(
        source, offset, label, group, score, position, statistics, relevant_candidates, relevant_offset, repeated
    )


@compiled
def _merge_lists(start, stop, label, score, group, relevant_start, relevant_stop, relevant_label, keep_all):  # type: ignore[no-untyped-def]
    pools, retrievers = start.shape
    entries, longest = 0, 0
    for p in range(pools):
        size = 0
        for r in range(retrievers):
            size += stop[p, r] - start[p, r]
        entries += size
        longest = max(longest, size)

    source = np.empty(pools, np.int64)
    offset = np.zeros(pools + 1, np.int64)
    candidate = np.empty(entries, np.int32)
    candidate_group = np.zeros(entries, np.int8)
    scores = np.empty((retrievers, entries), np.float64)
    position = np.empty((retrievers, entries), np.int32)
    figures = np.zeros((pools, retrievers, 6), np.float64)
    hit = np.empty(entries, np.int64)
    hit_offset = np.zeros(pools + 1, np.int64)
    repeated = np.empty(pools, np.int64)
    name = np.empty((2, longest), np.int32)
    entry = np.empty((2, longest), np.int32)

    kept, end, hits, repeats = 0, 0, 0, 0
    for p in range(pools):
        first, first_hit = end, hits
        end, twice = _merge_pool(
            start[p], stop[p], label, score, group, name, entry, end, candidate, candidate_group, scores, position
        )
        if twice:
            repeated[repeats] = p
            repeats += 1
        hits = _mark_relevant(candidate, first, end, relevant_label[relevant_start[p] : relevant_stop[p]], hit, hits)
        if hits == first_hit and not keep_all:
            end = first
            continue
        for r in range(retrievers):
            if stop[p, r] > start[p, r]:
                _list_figures(score[start[p, r] : stop[p, r]], figures[kept, r])
        source[kept] = p
        kept += 1
        offset[kept] = end
        hit_offset[kept] = hits

    return (
        source[:kept],
        offset[: kept + 1],
        candidate[:end],
        candidate_group[:end],
        scores[:, :end],
        position[:, :end],
        figures[:kept],
        hit[:hits],
        hit_offset[: kept + 1],
        repeated[:repeats],
    )


@compiled
def _merge_pool(start, stop, label, score, group, name, entry, end, candidate, candidate_group, scores, position):  # type: ignore[no-untyped-def]
    """Add the candidates of one pool behind `end`, ascending by label; the new end, and whether a list repeats one."""
    retrievers = start.size
    size = 0
    for r in range(retrievers):
        for e in range(start[r], stop[r]):
            name[0, size] = label[e]
            entry[0, size] = size
            size += 1
    order = _sort_by_name(name, entry, size)
    twice = False
    before = np.int32(-1)
    at = end - 1
    for s in range(size):
        current = name[order, s]
        # The place in all lists of the pool, one after another, becomes a list and the place in it.
        e, r = entry[order, s], 0
        while e >= stop[r] - start[r]:
            e -= stop[r] - start[r]
            r += 1
        if current != before:
            before = current
            at += 1
            candidate[at] = current
            for other in range(retrievers):
                position[other, at] = -1
                scores[other, at] = 0.0
        twice |= position[r, at] >= 0
        position[r, at] = e
        scores[r, at] = score[start[r] + e]
        if group.size:
            candidate_group[at] = group[start[r] + e]
    return at + 1, twice


@compiled
def _mark_relevant(candidate, first, end, relevant, hit, hits):  # type: ignore[no-untyped-def]
    """Note the candidates that are relevant, both ascending, behind `hits`; the new number of hits."""
    want = 0
    for c in range(first, end):
        while want < relevant.size and relevant[want] < candidate[c]:
            want += 1
        if want < relevant.size and relevant[want] == candidate[c]:
            hit[hits] = c
            hits += 1
    return hits


@compiled
def _list_figures(score, figures):  # type: ignore[no-untyped-def]
    """Size, minimum, maximum, sum, mean and standard deviation of a list, which is best first."""
    # In list order, so that the sums are those of a window over the same list, to the bit.
    total = 0.0
    for e in range(score.size):
        total += score[e]
    mean = total / score.size
    squares = 0.0
    for e in range(score.size):
        squares += (score[e] - mean) * (score[e] - mean)
    figures[0] = score.size
    figures[1] = score[score.size - 1]
    figures[2] = score[0]
    figures[3] = total
    figures[4] = mean
    figures[5] = np.sqrt(squares / score.size)


@compiled
def _sort_by_name(name, entry, size):  # type: ignore[no-untyped-def]
    """Radix sort of the pairs in row 0, byte by byte, with row 1 as the other half; the row that holds the result.
    Names are not negative."""
    bits = np.int32(0)
    for s in range(size):
        bits |= name[0, s]
    begin = np.empty(257, np.int32)
    row = 0
    shift = 0
    while bits >> shift:
        begin[:] = 0
        for s in range(size):
            begin[((name[row, s] >> shift) & 255) + 1] += 1
        for digit in range(256):
            begin[digit + 1] += begin[digit]
        for s in range(size):
            digit = (name[row, s] >> shift) & 255
            to = begin[digit]
            begin[digit] = to + 1
            name[1 - row, to] = name[row, s]
            entry[1 - row, to] = entry[row, s]
        row = 1 - row
        shift += 8
    return row
