"""Pools: the candidates of a text (of one label group, or all of them) with their scores in every list.

A pool unites the lists of R retrievers. The pools of a text block are held as matrices (lists x candidates), pool after
pool and each pool in ascending order of label ids, so that within a pool the earlier of two equal scores wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
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

    def of_lists(self, lists: Sequence[int], candidates: Floats) -> ListStatistics:
        """Those of some lists; `candidates`: the sizes of their pools."""
        kept = {field.name: getattr(self, field.name)[:, lists] for field in fields(self)}
        return ListStatistics(**{**kept, "candidates": np.repeat(candidates[:, None], len(lists), axis=1)})


@dataclass
class Pools:
    """The pools of a text block. `source` names the pool of `Lists` that each one was made from."""

    source: Ints
    offset: Ints
    label: Int32s
    group: Array
    score: Floats
    position: Int32s
    """The 0-based place of a candidate in a list, -1 if it is not there."""
    size: Ints
    """The number of results of every list (pools x lists)."""
    statistics: ListStatistics
    relevant: Ints
    """Candidates that are relevant, pool after pool."""
    relevant_offset: Ints
    repeated: Ints
    """Pools of `Lists` in which a list holds a label twice."""
    view: str = ""
    """What was merged: the lists of a label group, or of all labels."""
    fold: Array | None = None
    """The fold of each pool, where that is known."""
    train_texts: tuple[Int32s, Ints] | None = None
    """How many training texts carry each label (rows x labels), and the row of each pool, where that is known."""

    @cached_property
    def held(self) -> Ints:
        """The number of lists that hold each candidate."""
        held: Ints = _held(self.position)
        return held

    @cached_property
    def lists(self) -> Ints:
        """The number of lists of each candidate's pool; a retriever that returned nothing has none."""
        return np.repeat((self.size > 0).sum(axis=1), np.diff(self.offset))

    @cached_property
    def inverse_squares(self) -> Floats:
        """The sum of 1 / rank^2 of each candidate over the lists that hold it."""
        return _inverse_squares(self.position)

    @property
    def mean_position(self) -> Floats:
        """The place of a candidate in a list, where labels of equal score share the mean of their places; -1 if it is
        not there."""
        return self._ties[0]

    @property
    def first_position(self) -> Int32s:
        """The same, where they share the first of their places."""
        return self._ties[1]

    @cached_property
    def _ties(self) -> tuple[Floats, Int32s]:
        return _tied_positions(self.offset, self.position, self.score, self.size)

    @property
    def folds(self) -> Array:
        """The fold of each pool; 0 where it is not known."""
        return np.zeros(len(self.source), np.int64) if self.fold is None else self.fold

    def of_lists(self, lists: Sequence[int]) -> tuple[Pools, Ints]:
        """The pools that some of the lists make, and which candidates are in them. Nothing in them is relevant."""
        candidates, offset, position, score = _of_lists(self.position, self.score, self.offset, np.array(lists))
        nothing = np.empty(0, np.int64)
        pools = Pools(
            source=self.source,
            offset=offset,
            label=self.label[candidates],
            group=self.group[candidates],
            score=score,
            position=position,
            size=self.size[:, list(lists)],
            statistics=self.statistics.of_lists(list(lists), np.diff(offset).astype(np.float64)),
            relevant=nothing,
            relevant_offset=np.zeros(len(offset), np.int64),
            repeated=nothing,
            view=self.view,
            fold=self.fold,
        )
        return pools, candidates


@compiled
def _held(position):  # type: ignore[no-untyped-def]
    held = np.zeros(position.shape[1], np.int64)
    for r in range(position.shape[0]):
        for c in range(position.shape[1]):
            held[c] += position[r, c] >= 0
    return held


@compiled
def _tied_positions(offset, position, score, size):  # type: ignore[no-untyped-def]
    mean, lowest = np.full(position.shape, -1.0), np.full(position.shape, np.int32(-1))
    at = np.empty(max(1, size.max()) if size.size else 1, np.int64)
    for p in range(offset.size - 1):
        for r in range(position.shape[0]):
            for c in range(offset[p], offset[p + 1]):
                if position[r, c] >= 0:
                    at[position[r, c]] = c
            first = 0
            while first < size[p, r]:
                last = first
                while last + 1 < size[p, r] and score[r, at[last + 1]] == score[r, at[first]]:
                    last += 1
                for place in range(first, last + 1):
                    mean[r, at[place]] = (first + last) / 2
                    lowest[r, at[place]] = first
                first = last + 1
    return mean, lowest


@compiled
def _of_lists(position, score, offset, lists):  # type: ignore[no-untyped-def]
    """The candidates that some lists hold, where each pool's begin, and their places and scores in these lists."""
    held = np.zeros(position.shape[1], np.bool_)
    for r in lists:
        for c in range(held.size):
            held[c] |= position[r, c] >= 0
    candidates = np.empty(held.size, np.int64)
    begin = np.zeros(offset.size, np.int64)
    end = 0
    for p in range(offset.size - 1):
        for c in range(offset[p], offset[p + 1]):
            candidates[end] = c
            end += held[c]
        begin[p + 1] = end
    candidates = candidates[:end]
    of_position = np.empty((lists.size, end), position.dtype)
    of_score = np.empty((lists.size, end), score.dtype)
    for i in range(lists.size):
        positions, scores = position[lists[i]], score[lists[i]]
        for n in range(end):
            of_position[i, n] = positions[candidates[n]]
            of_score[i, n] = scores[candidates[n]]
    return candidates, begin, of_position, of_score


@compiled
def _inverse_squares(position):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    longest = 0
    for r in range(retrievers):
        for c in range(candidates):
            longest = max(longest, position[r, c] + 1)
    # The last one is for position -1: a list that lacks the candidate.
    worth = np.zeros(longest + 1)
    for place in range(longest):
        rank = place + 1.0
        worth[place] = 1.0 / (rank * rank)
    out = np.zeros(candidates, np.float64)
    for r in range(retrievers):
        for c in range(candidates):
            out[c] += worth[position[r, c]]
    return out


def merge_lists(lists: Lists, relevant: Relevant, keep_all: bool) -> Pools:
    """Merge the lists of every pool. Pools without a relevant candidate are left out unless `keep_all`:
    no ranking of theirs can hold a hit."""
    (source, offset, label, group, score, position, figures, relevant_candidates, relevant_offset, repeated) = (
        _merge_lists(*lists, *relevant, keep_all)
    )
    sizes = np.diff(offset).astype(np.float64)
    size, low, high, total, mean, std = (figures[:, :, f] for f in range(6))
    candidates = np.repeat(sizes[:, None], lists.start.shape[1], axis=1)
    statistics = ListStatistics(size=size, low=low, high=high, total=total, mean=mean, std=std, candidates=candidates)
    return Pools(
        source=source,
        offset=offset,
        label=label,
        group=group,
        score=score,
        position=position,
        size=size.astype(np.int64),
        statistics=statistics,
        relevant=relevant_candidates,
        relevant_offset=relevant_offset,
        repeated=repeated,
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
