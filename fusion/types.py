"""Array types of the arithmetic, and the precision of what is learned."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Singles: TypeAlias = npt.NDArray[np.float32]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Int32s: TypeAlias = npt.NDArray[np.int32]
Array: TypeAlias = npt.NDArray[Any]

EPS = 1e-9
"""Denominators are never smaller than this."""
DIGITS = 9
"""What is learned is rounded to this many significant digits, so that the last bits of a sum do not show."""


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS - 1}e}")
