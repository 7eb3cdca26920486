"""What normalisations do with the scores of a list, on matrices.

The exponential function is made of plain arithmetic: numpy and Spark have one each, which differ in the last digit, and
the engines must not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.types import EPS, Floats

LARGEST = 708.0
"""Beyond this, in both directions, the result no longer changes: it would leave the range of doubles."""
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, of which the first has zeros at its end: whole multiples of it are exact."""
_INVERSE_FACTORIALS = [1 / math.factorial(n) for n in range(14)]
EXPONENTIAL = (1 / math.log(2), _LN2_HIGH, _LN2_LOW, np.array(_INVERSE_FACTORIALS))
"""For code that is compiled, which does the same step by step."""


def exponential(x: Any, floor: Callable[[Any], Any], power_of_two: Callable[[Any], Any]) -> Any:
    """e^x for x from -LARGEST to LARGEST, as 2^n e^r with |r| below ln(2) / 2, where Taylor's series is short."""
    n = floor(x * (1 / math.log(2)) + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    series = r * _INVERSE_FACTORIALS[-1] + _INVERSE_FACTORIALS[-2]
    for coefficient in _INVERSE_FACTORIALS[-3::-1]:
        series = series * r + coefficient
    return series * power_of_two(n)


class MatrixArithmetic:
    """On matrices (lists x candidates), in which places that a list does not hold may have any value."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools

    @staticmethod
    def guard(denominator: Floats) -> Floats:
        return np.maximum(denominator, EPS)

    def sum(self, values: Floats) -> Floats:
        """The sum over the list that a value belongs to, taken from the best label to the last, as a window does."""
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
        return exponentials(values)


def exponentials(values: Floats) -> Floats:
    """e^x of every value, the same to the last bit on every machine; of what is beyond LARGEST, that of LARGEST."""
    raised: Floats = _exponentials(values.ravel(), LARGEST, *EXPONENTIAL)
    return raised.reshape(values.shape)


@compiled
def _exponentials(values, largest, inverse_ln2, ln2_high, ln2_low, coefficients):  # type: ignore[no-untyped-def]
    # Step by step what `exponential` does, and hence to the last bit what Spark computes.
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
