"""The candidates of a block of pools as fusions see them: normalised scores, ranks, and figures of both."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.registry import Normalization
from fusion.types import Floats, Ints


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
