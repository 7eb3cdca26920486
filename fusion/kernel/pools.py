"""Pools: the candidates of a text (of one label group, or all of them) with their scores in every list.

A pool unites the lists of R retrievers. A block of pools is held as matrices (lists x candidates), pool after
pool and each pool in ascending order of label ids, so that within a pool the earlier of two equal scores wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.registry import Normalization
from fusion.types import EPS, Array, Floats, Int32s, Ints


class Lists(NamedTuple):
    """Ranked lists: list r of pool p holds the entries start[p, r] to stop[p, r], best first."""

    start: Ints
    stop: Ints
    label: Int32s
    score: Floats
    group: Array
    """The label group of each entry; empty where nothing asks for it."""


class Relevant(NamedTuple):
    """The labels a text should get: those of pool p are label[start[p]:stop[p]], ascending."""

    start: Ints
    stop: Ints
    label: Int32s


@dataclass
class ListStatistics:
    """Figures of every list, as matrices (pools x lists); what a normalisation reads."""

    size: Floats
    low: Floats
    high: Floats
    total: Floats
    mean: Floats
    std: Floats
    candidates: Floats

    @staticmethod
    def guard(denominator: Array) -> Array:
        return np.maximum(denominator, EPS)


@dataclass
class Pools:
    """A block of pools. `source` names the pool of `Lists` that each one was made from."""

    source: Ints
    offset: Ints
    label: Int32s
    group: Array
    score: Floats
    position: Int32s
    """The 0-based place of a candidate in a list, -1 if it is not there."""
    statistics: ListStatistics
    relevant: Ints
    """Candidates that are relevant, pool after pool."""
    relevant_offset: Ints
    repeated: Ints
    """Pools of `Lists` in which a list holds a label twice."""

    @cached_property
    def held(self) -> Ints:
        """The number of lists that hold each candidate."""
        return (self.position >= 0).sum(axis=0)

    @cached_property
    def lists(self) -> Ints:
        """The number of lists of each candidate's pool; a retriever that returned nothing has none."""
        return np.repeat((self.size > 0).sum(axis=1), np.diff(self.offset))

    @cached_property
    def inverse_squares(self) -> Floats:
        """The sum of 1 / rank^2 of each candidate over the lists that hold it."""
        return _inverse_squares(self.position)

    @cached_property
    def size(self) -> Ints:
        """The number of results of every list (pools x lists)."""
        return self.statistics.size.astype(np.int64)


class Candidates:
    """The candidates of a block as a fusion sees them: their scores under one normalisation, and their ranks.

    The figures below are computed together in one compiled pass; `x` and `ranks` are the plain matrices
    (lists x candidates, NaN where a list lacks the candidate) for fusions that want them.
    """

    def __init__(self, pools: Pools, normalization: Normalization | None = None, values: Floats | None = None) -> None:
        """`values`: scores that were normalised elsewhere, as a matrix like `pools.score`."""
        self.pools = pools
        self._normalization = normalization
        self._values = values

    @cached_property
    def _scaling(self) -> tuple[Floats, Floats, Floats, Floats, bool]:
        """What turns the value of a candidate in a list into its score: value, shift, scale, score if missing."""
        if self._normalization is None:
            raise ValueError("a fusion that reads ranks asked for scores")
        statistics = self.pools.statistics
        shape = statistics.size.shape
        imputed = self._normalization.imputed
        missing = np.zeros(shape) if imputed is None else imputed(statistics)
        if self._values is not None:
            return self._values, np.zeros(shape), np.ones(shape), missing, imputed is not None
        shift, scale = (
            np.broadcast_to(np.asarray(part, dtype=np.float64), shape)
            for part in self._normalization.affine(statistics)
        )
        value = self.pools.score if self._normalization.reads == "scores" else self._places
        return value, np.ascontiguousarray(shift), np.ascontiguousarray(scale), missing, imputed is not None

    @cached_property
    def _places(self) -> Floats:
        return self.pools.position.astype(np.float64)

    @cached_property
    def _combined(self) -> tuple[Floats, Floats, Floats]:
        return _combine(self.pools.offset, self.pools.position, self.pools.size, *self._scaling)

    @property
    def total(self) -> Floats:
        return self._combined[0]

    @property
    def low(self) -> Floats:
        return self._combined[1]

    @property
    def high(self) -> Floats:
        return self._combined[2]

    @property
    def held(self) -> Ints:
        """The number of lists in which the label has a score (or, for a fusion that reads ranks, a rank)."""
        if self._normalization is None or self._normalization.imputed is None:
            return self.pools.held
        return self.pools.lists

    @cached_property
    def median(self) -> Floats:
        # Of one or two numbers the median is the mean.
        if len(self.pools.position) <= 2:
            return self.total / self.held
        return _median(self.x)

    @property
    def inverse_squares(self) -> Floats:
        return self.pools.inverse_squares

    @cached_property
    def x(self) -> Floats:
        return _matrix(self.pools.offset, self.pools.position, self.pools.size, *self._scaling)

    @cached_property
    def ranks(self) -> Floats:
        return np.where(self.pools.position >= 0, self.pools.position + 1.0, np.nan)


def merge_lists(lists: Lists, relevant: Relevant, keep_all: bool) -> Pools:
    """Merge the lists of every pool. Pools without a relevant candidate are left out unless `keep_all`:
    no ranking of theirs can hold a hit."""
    (source, offset, label, group, score, position, figures, found, found_offset, repeated) = _merge_lists(
        *lists, *relevant, keep_all
    )
    sizes = np.diff(offset).astype(np.float64)
    size, low, high, total, mean, std = (figures[:, :, f] for f in range(6))
    candidates = np.repeat(sizes[:, None], lists.start.shape[1], axis=1)
    statistics = ListStatistics(size, low, high, total, mean, std, candidates)
    return Pools(source, offset, label, group, score, position, statistics, found, found_offset, repeated)


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
        this = name[order, s]
        # The place in all lists of the pool, one after another, becomes a list and the place in it.
        e, r = entry[order, s], 0
        while e >= stop[r] - start[r]:
            e -= stop[r] - start[r]
            r += 1
        if this != before:
            before = this
            at += 1
            candidate[at] = this
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


@compiled
def _combine(offset, position, size, value, shift, scale, missing, impute):  # type: ignore[no-untyped-def]
    """Sum, minimum and maximum of the scores of every candidate. Written without branches: one select per figure."""
    retrievers, candidates = position.shape
    total = np.zeros(candidates, np.float64)
    low = np.full(candidates, np.inf, np.float64)
    high = np.full(candidates, -np.inf, np.float64)
    for p in range(offset.size - 1):
        for r in range(retrievers):
            if size[p, r] == 0:
                continue
            a, b = shift[p, r], scale[p, r]
            nothing = missing[p, r] if impute else 0.0
            lowest = missing[p, r] if impute else np.inf
            highest = missing[p, r] if impute else -np.inf
            for c in range(offset[p], offset[p + 1]):
                there = position[r, c] >= 0
                x = (value[r, c] - a) / b
                total[c] += x if there else nothing
                bottom = x if there else lowest
                low[c] = bottom if bottom < low[c] else low[c]
                top = x if there else highest
                high[c] = top if top > high[c] else high[c]
    return total, low, high


@compiled
def _matrix(offset, position, size, value, shift, scale, missing, impute):  # type: ignore[no-untyped-def]
    """The scores themselves, NaN where there is none."""
    retrievers, candidates = position.shape
    x = np.full((retrievers, candidates), np.nan)
    for p in range(offset.size - 1):
        for r in range(retrievers):
            if size[p, r] == 0:
                continue
            for c in range(offset[p], offset[p + 1]):
                if position[r, c] >= 0:
                    x[r, c] = (value[r, c] - shift[p, r]) / scale[p, r]
                elif impute:
                    x[r, c] = missing[p, r]
    return x


@compiled
def _median(x):  # type: ignore[no-untyped-def]
    retrievers, candidates = x.shape
    out = np.empty(candidates, np.float64)
    ordered = np.empty(retrievers, np.float64)
    for c in range(candidates):
        m = 0
        for r in range(retrievers):
            if np.isnan(x[r, c]):
                continue
            place = m
            while place > 0 and ordered[place - 1] > x[r, c]:
                ordered[place] = ordered[place - 1]
                place -= 1
            ordered[place] = x[r, c]
            m += 1
        out[c] = (ordered[(m - 1) // 2] + ordered[m // 2]) / 2
    return out


@compiled
def _inverse_squares(position):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    out = np.zeros(candidates, np.float64)
    for r in range(retrievers):
        for c in range(candidates):
            rank = position[r, c] + 1.0
            out[c] += 1.0 / (rank * rank) if rank > 0 else 0.0
    return out
