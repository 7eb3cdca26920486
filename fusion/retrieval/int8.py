"""Products of matrices in whole numbers of 8 bits: rows of floats become such numbers, products become floats again.

With the lowest value l(i) and the step s(i) = (highest - lowest) / 255 of row i of X,

    q(i, k) = round((x(i, k) - l(i)) / s(i))
    sum over k of x(i, k) w(k, j)  ~  s(i) sum over k of q(i, k) w(k, j)  +  l(i) sum over k of w(k, j)

Every row has a scale of its own: a token with one large value does not coarsen those of other texts.
"""

from __future__ import annotations

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.types import Array, Singles

STEPS = np.float32(255)
"""Between the lowest and the highest value of a row."""
WEIGHT_STEPS = np.float32(127)
"""Between zero and the largest weight of an output."""


def quantized_rows(rows: Singles, low: Singles, high: Singles) -> tuple[Array, Singles]:
    """The rows in numbers from 0 to 255, and the step of each, given the lowest and the highest value of each."""
    step = (high - low) / STEPS
    # Of a row of equal values, l(i) says all.
    step[step == 0] = 1
    codes = np.empty(rows.shape, np.uint8)
    _quantize(rows, low, np.float32(1) / step, codes)
    return codes, step


def restore(products: Singles, low: Singles, step: Singles, sums: Singles, bias: Singles) -> None:
    """Turn the products of quantized rows with weights into those of the rows themselves, in place.

    `sums` holds the sum of the weights of each output, `bias` what is added to it.
    """
    _restore(products, low, step, sums, bias)


def quantized_weights(weights: Singles) -> tuple[Array, Singles]:
    """Weights (one row per output) in numbers from -127 to 127, and the step of each output."""
    step = np.abs(weights).max(axis=1) / WEIGHT_STEPS
    step[step == 0] = 1
    return np.rint(weights / step[:, None]).astype(np.int8), step


@compiled
def _quantize(rows, low, scale, codes):  # type: ignore[no-untyped-def]
    half = np.float32(0.5)
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            codes[i, k] = np.int32((rows[i, k] - low[i]) * scale[i] + half)


@compiled
def _restore(products, low, step, sums, bias):  # type: ignore[no-untyped-def]
    for i in range(products.shape[0]):
        for j in range(products.shape[1]):
            products[i, j] = products[i, j] * step[i] + (low[i] * sums[j] + bias[j])
