"""The exponential function out of plain arithmetic, so that numpy and Spark agree on it to the last bit.

Both have one of their own, but libraries differ in the last digit, and the engines must not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

LARGEST = 708.0
"""Beyond this, in both directions, the result no longer changes: it would leave the range of doubles."""
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
"""ln 2 in two parts, of which the first has zeros at its end: whole multiples of it are exact."""
_INVERSE_FACTORIALS = [1 / math.factorial(n) for n in range(14)]
CONSTANTS = (1 / math.log(2), _LN2_HIGH, _LN2_LOW, np.array(_INVERSE_FACTORIALS))
"""For code that is compiled, which does the same step by step."""


def exponential(x: Any, floor: Callable[[Any], Any], power_of_two: Callable[[Any], Any]) -> Any:
    """e^x for x from -LARGEST to LARGEST, as 2^n e^r with |r| below ln(2) / 2, where Taylor's series is short."""
    n = floor(x * (1 / math.log(2)) + 0.5)
    r = (x - n * _LN2_HIGH) - n * _LN2_LOW
    series = r * _INVERSE_FACTORIALS[-1] + _INVERSE_FACTORIALS[-2]
    for coefficient in _INVERSE_FACTORIALS[-3::-1]:
        series = series * r + coefficient
    return series * power_of_two(n)
