"""Arithmetic over whole lists on the kernel's matrices, for normalisations that are more than a shift and a scale."""

from __future__ import annotations

import numpy as np

from fusion.exponential import LARGEST, exponential
from fusion.kernel.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.types import EPS, Array, Floats


class MatrixArithmetic:
    """On matrices (lists x candidates), in which places that a list does not hold may have any value."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    @staticmethod
    def guard(denominator: Floats) -> Floats:
        return np.maximum(denominator, EPS)

    def sum(self, values: Floats) -> Floats:
        """The sum over the list that a value stands in, taken from the best label to the last, as a window does."""
        pools = self._pools
        return _list_sums(pools.offset, pools.position, pools.size, values)

    @staticmethod
    def clip(values: Floats, low: float, high: float) -> Floats:
        return np.minimum(np.maximum(values, low), high)

    @staticmethod
    def sqrt(values: Floats) -> Floats:
        return np.sqrt(values)

    @staticmethod
    def exp(values: Floats) -> Floats:
        inside = np.minimum(np.maximum(values, -LARGEST), LARGEST)
        return np.asarray(exponential(inside, np.floor, _power_of_two))


def _power_of_two(exponent: Array) -> Floats:
    return np.ldexp(1.0, exponent.astype(np.int64))


@compiled
def _list_sums(offset, position, size, values):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    sums = np.zeros((retrievers, candidates))
    ordered = np.empty(max(1, size.max()) if size.size else 1)
    for p in range(offset.size - 1):
        for r in range(retrievers):
            for c in range(offset[p], offset[p + 1]):
                if position[r, c] >= 0:
                    ordered[position[r, c]] = values[r, c]
            total = 0.0
            for place in range(size[p, r]):
                total += ordered[place]
            for c in range(offset[p], offset[p + 1]):
                sums[r, c] = total
    return sums
