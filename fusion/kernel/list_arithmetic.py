"""Arithmetic over whole lists on the kernel's matrices, for normalisations that are more than a shift and a scale."""

from __future__ import annotations

import math

import numpy as np

from fusion.exponential import CONSTANTS, LARGEST
from fusion.kernel.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.types import EPS, Floats


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
        raised: Floats = _exponentials(values.ravel(), LARGEST, *CONSTANTS)
        return raised.reshape(values.shape)


@compiled
def _exponentials(values, largest, inverse_ln2, ln2_high, ln2_low, coefficients):  # type: ignore[no-untyped-def]
    # Step by step what fusion.exponential does, and hence to the last bit what Spark computes.
    out = np.empty(values.size)
    for i in range(values.size):
        x = min(max(values[i], -largest), largest)
        n = np.floor(x * inverse_ln2 + 0.5)
        r = (x - n * ln2_high) - n * ln2_low
        series = r * coefficients[-1] + coefficients[-2]
        for c in range(coefficients.size - 3, -1, -1):
            series = series * r + coefficients[c]
        out[i] = series * math.ldexp(1.0, int(n))
    return out


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
