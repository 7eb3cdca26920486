"""The candidates of a text block as fusions see them: normalised scores, ranks, and figures of both."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.arithmetic import MatrixArithmetic
from fusion.kernel.pools import Pools
from fusion.registry import Normalization
from fusion.types import Array, Floats, Int32s, Ints

Missing = Literal["skip", "zero", "minimum"]
Constant = Literal["formula", "zero", "half", "one"]
Tied = Literal["by_id", "mean_rank"]
CONSTANTS = {"zero": 0.0, "half": 0.5, "one": 1.0}


class Policies(NamedTuple):
    """What the formulas of normalisations leave open."""

    missing: Missing = "skip"
    """The score of a label in a list that lacks it, where the normalisation has none: no score, 0, or the list's
    lowest."""
    constant: Constant = "formula"
    """The scores of a list whose scores are all equal, under normalisations that divide by their spread."""
    tied: Tied = "by_id"
    """The ranks of labels of equal score in a list, for fusions that read ranks: by label id, or their mean rank."""


DEFAULT = Policies()


class Candidates:
    """The candidates of a text block as a fusion sees them: their scores under one normalisation, and their ranks.

    The figures below are computed together in one compiled pass; `x` and `ranks` are the plain matrices
    (lists x candidates, NaN where a list lacks the candidate) for fusions that want them.
    """

    def __init__(
        self,
        pools: Pools,
        normalization: Normalization | None = None,
        values: Floats | None = None,
        policies: Policies = DEFAULT,
    ) -> None:
        """`values`: scores that were normalised elsewhere, as a matrix like `pools.score`."""
        self.pools = pools
        self._normalization = normalization
        self._values = values
        self._policies = policies
        self._places: tuple[Ints, Array, Ints] = (pools.offset, pools.position, pools.size)
        # Whether a list has a score for the candidates that it lacks.
        self._imputes = normalization is not None and (normalization.imputed is not None or policies.missing != "skip")
        # Whether labels of equal score share a rank.
        self._shares_ranks = policies.tied == "mean_rank"

    @cached_property
    def _scaling(self) -> tuple[Floats, Floats, Floats, Floats, bool]:
        """What turns the value of a candidate in a list into its score: value, shift, scale, score if missing."""
        normalization, statistics = self._normalization, self.pools.statistics
        if normalization is None:
            raise ValueError("a fusion that reads ranks asked for scores")
        nothing = np.zeros(statistics.size.shape)
        value, shift, scale = self._values, nothing, nothing + 1
        flattens = normalization.by_spread and self._policies.constant != "formula"
        if value is None:
            value = self.pools.score if normalization.reads == "scores" else self.pools.position.astype(np.float64)
            shift, scale = (
                np.ascontiguousarray(np.broadcast_to(np.asarray(figure, np.float64), nothing.shape))
                for figure in normalization.affine(statistics)
            )
            if normalization.shape is not None or flattens:
                value = np.nan_to_num(_matrix(*self._places, value, shift, scale, nothing, False))
                shift, scale = nothing, nothing + 1
            if normalization.shape is not None:
                # The sum over a list without results is 0; nobody reads what is divided by it.
                with np.errstate(divide="ignore", invalid="ignore"):
                    value = normalization.shape(value, MatrixArithmetic(self.pools))
        if flattens:
            flat = np.repeat((statistics.low == statistics.high).T, np.diff(self.pools.offset), axis=1)
            value = np.where(flat, CONSTANTS[self._policies.constant], value)
        missing = self._imputed(normalization, value, shift, scale) if self._imputes else nothing
        return value, shift, scale, missing, self._imputes

    def _imputed(self, normalization: Normalization, value: Floats, shift: Floats, scale: Floats) -> Floats:
        """The score of the candidates that a list lacks (pools x lists)."""
        if normalization.imputed is not None:
            # Some lists of many may make a pool without candidates.
            with np.errstate(divide="ignore", invalid="ignore"):
                return np.ascontiguousarray(normalization.imputed(self.pools.statistics), dtype=np.float64)
        if self._policies.missing == "minimum":
            return np.asarray(_last(*self._places, value, shift, scale))
        return np.zeros(shift.shape)

    @cached_property
    def _combined(self) -> tuple[Floats, Floats, Floats]:
        return _combine(*self._places, *self._scaling)

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
        return self.pools.lists if self._imputes else self.pools.held

    @cached_property
    def root_held(self) -> Floats:
        """The square root of that number."""
        return np.sqrt(self.held)

    @cached_property
    def median(self) -> Floats:
        # Of one or two numbers the median is the mean.
        if len(self.pools.position) <= 2:
            return self.total / self.held
        return _median(*self._places, *self._scaling)

    @property
    def inverse_squares(self) -> Floats:
        if self._shares_ranks:
            return self.total_by_rank(lambda rank: 1.0 / (rank * rank))
        return self.pools.inverse_squares

    @property
    def place(self) -> Array:
        """The place of a label in each list, from 0 on (-1: the list lacks it), as votes count it."""
        return self.pools.mean_position if self._shares_ranks else self.pools.position

    @property
    def order(self) -> Int32s:
        """Whole numbers below the size of the list that order the labels of each list as their places do (-1: the list
        lacks it)."""
        return self.pools.first_position if self._shares_ranks else self.pools.position

    @staticmethod
    def total_of(matrix: Floats) -> Floats:
        """The sum over the lists of a matrix (lists x candidates), without what is NaN."""
        return _weighted_total(matrix, np.ones(len(matrix)))

    def weighted_total(self, weights: Floats) -> Floats:
        """The sum of each label's scores, each times the weight of its list."""
        return _weighted_total(self.x, weights)

    def weight_held(self, weights: Floats) -> Floats:
        """The sum of the weights of the lists in which the label has a score."""
        return _weighted_total(np.where(np.isnan(self.x), np.nan, 1.0), weights)

    def total_by_rank(self, worth: Callable[[Floats], Floats]) -> Floats:
        """The sum over the lists that hold a label of what its rank there is worth."""
        if self._shares_ranks:
            # Mean ranks are multiples of a half.
            halves = (2 * self.pools.mean_position).astype(np.int32)
            return _total_by_place(halves, worth(1 + np.arange(2 * self.longest) / 2))
        return _total_by_place(self.pools.position, worth(np.arange(1.0, self.longest + 1)))

    @property
    def longest(self) -> int:
        """The number of places in the longest list."""
        return int(self.pools.size.max(initial=0))

    @cached_property
    def x(self) -> Floats:
        return _matrix(*self._places, *self._scaling)

    @cached_property
    def ranks(self) -> Floats:
        return np.where(self.pools.position >= 0, self.place + 1.0, np.nan)


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
def _last(offset, position, size, value, shift, scale):  # type: ignore[no-untyped-def]
    """The score at the last place of every list, which is its lowest."""
    last = np.zeros(shift.shape)
    for p in range(offset.size - 1):
        for r in range(position.shape[0]):
            if size[p, r] == 0:
                continue
            for c in range(offset[p], offset[p + 1]):
                if position[r, c] == size[p, r] - 1:
                    last[p, r] = (value[r, c] - shift[p, r]) / scale[p, r]
    return last


@compiled
def _weighted_total(x, weights):  # type: ignore[no-untyped-def]
    total = np.zeros(x.shape[1])
    for r in range(x.shape[0]):
        weight = weights[r]
        for c in range(x.shape[1]):
            # Without a branch, so that it runs in full vectors.
            value = x[r, c]
            total[c] += weight * value if value == value else 0.0
    return total


@compiled
def _total_by_place(position, worth):  # type: ignore[no-untyped-def]
    total = np.zeros(position.shape[1])
    for r in range(position.shape[0]):
        for c in range(position.shape[1]):
            if position[r, c] >= 0:
                total[c] += worth[position[r, c]]
    return total


@compiled
def _median(offset, position, size, value, shift, scale, missing, impute):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    out = np.empty(candidates, np.float64)
    ordered = np.empty(retrievers, np.float64)
    for p in range(offset.size - 1):
        for c in range(offset[p], offset[p + 1]):
            m = 0
            for r in range(retrievers):
                if position[r, c] >= 0:
                    x = (value[r, c] - shift[p, r]) / scale[p, r]
                elif impute and size[p, r] > 0:
                    x = missing[p, r]
                else:
                    continue
                place = m
                while place > 0 and ordered[place - 1] > x:
                    ordered[place] = ordered[place - 1]
                    place -= 1
                ordered[place] = x
                m += 1
            out[c] = (ordered[(m - 1) // 2] + ordered[m // 2]) / 2
    return out
