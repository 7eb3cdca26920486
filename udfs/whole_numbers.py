"""Whole numbers as bytes, for rows that travel between workers: half the bytes where all numbers are small."""

from __future__ import annotations

import numpy as np

from fusion.types import Ints

SMALL = np.iinfo(np.int32)


def numbers_to_bytes(numbers: Ints) -> bytes:
    """Eight bytes per number; four where all are small, and then one more, so that the number of bytes is odd."""
    if len(numbers) and (numbers.min() < SMALL.min or numbers.max() > SMALL.max):
        return numbers.tobytes()
    return numbers.astype(np.int32).tobytes() + b"\0" if len(numbers) else b""


def numbers_from_bytes(content: bytes) -> Ints:
    """The numbers that `numbers_to_bytes` was given."""
    if len(content) % 2:
        return np.frombuffer(content, np.int32, len(content) // 4).astype(np.int64)
    return np.frombuffer(content, np.int64)
