"""Whole numbers under several names that add up as one vector, in any order."""

from __future__ import annotations

import math

import numpy as np

from fusion.types import Ints


class Counts:
    """Arrays of counts, each an attribute, all of them parts of the vector `counts`."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        sizes = [math.prod(shape) for shape in shapes.values()]
        self.counts: Ints = np.zeros(sum(sizes), np.int64)
        for (name, shape), part in zip(shapes.items(), np.split(self.counts, np.cumsum(sizes)[:-1]), strict=True):
            setattr(self, name, part.reshape(shape))

    def packed(self) -> tuple[Ints, Ints]:
        """The counts that are not zero: where, and how many."""
        where = np.flatnonzero(self.counts)
        return where, self.counts[where]

    def unpack(self, where: Ints, counts: Ints) -> None:
        """Add packed counts."""
        np.add.at(self.counts, where, counts)
