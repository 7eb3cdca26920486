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

from fusion.kernel.compiled import compiled
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
        """Those of some lists, whose pools have so many candidates."""
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

    @cached_property
    def size(self) -> Ints:
        """The number of results of every list (pools x lists)."""
        return self.statistics.size.astype(np.int64)

    @property
    def folds(self) -> Array:
        """The fold of each pool; 0 where it is not known."""
        return np.zeros(len(self.source), np.int64) if self.fold is None else self.fold

    def of_lists(self, lists: Sequence[int]) -> tuple[Pools, Ints]:
        """The pools that some of the lists make, and which candidates are in them. Nothing in them is relevant."""
        candidates, offset, position, score = _of_lists(self.position, self.score, self.offset, np.array(lists))
        nothing = np.empty(0, np.int64)
        pools = Pools(
            self.source,
            offset,
            self.label[candidates],
            self.group[candidates],
            score,
            position,
            self.statistics.of_lists(list(lists), np.diff(offset).astype(np.float64)),
            nothing,
            np.zeros(len(offset), np.int64),
            nothing,
            self.view,
            self.fold,
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
