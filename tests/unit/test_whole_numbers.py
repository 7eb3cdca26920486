"""Whole numbers as bytes and back."""

from __future__ import annotations

import numpy as np
import pytest

from udfs.counter import numbers_from_bytes, numbers_to_bytes


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ([], 0),
        ([7], 5),
        ([0, -(2**31), 2**31 - 1], 13),
        ([1, 2**31], 16),
        ([-(2**31) - 1], 8),
        ([2**63 - 1, -(2**63), 5], 24),
    ],
)
def test_there_and_back(numbers: list[int], size: int) -> None:
    content = numbers_to_bytes(np.array(numbers, np.int64))
    again = numbers_from_bytes(content)
    assert (again.tolist(), again.dtype, len(content)) == (numbers, np.int64, size)
