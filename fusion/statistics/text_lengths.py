"""Sums over texts of like length, from which a fused column is compared with each single retriever's.

As in paired.py, figures are whole numbers, so sums are exact. Here only the pairs of a column and a single retriever
are of interest, and only one measure, so few numbers are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.statistics.significance import ManyPaired, paired_t_of_many_sums
from fusion.types import Array, Ints

FEWEST_WORDS = (0, 21, 51, 101, 201, 501, 1001)
"""Texts are told apart by their number of words: up to 20, 21 to 50, and so on, 1,001 and more."""
UNKNOWN = -1
"""The band of a text whose length is not known."""


def most_words(band: int) -> int | None:
    """The largest number of words of a band; None: without end."""
    return FEWEST_WORDS[band + 1] - 1 if band + 1 < len(FEWEST_WORDS) else None


class LengthSums:
    """`queries[band]`, `sums[band, column]`, `squares[band, column]` and `products[band, column, single]` of a measure
    in a view. The single retrievers' columns come behind the fused ones."""

    def __init__(self, columns: int, singles: int, unit: float) -> None:
        """`columns` fused ones; figures are whole numbers of `unit`."""
        bands, width = len(FEWEST_WORDS), columns + singles
        self._columns, self._unit = columns, unit
        self.queries: Ints = np.zeros(bands, np.int64)
        self.sums: Ints = np.zeros((bands, width), np.int64)
        self.squares: Ints = np.zeros((bands, width), np.int64)
        self.products: Ints = np.zeros((bands, columns, singles), np.int64)

    def count(self, bands: Ints) -> None:
        """The bands of texts that count, whether they have a figure above 0 or not."""
        self.queries += np.bincount(bands[bands != UNKNOWN], minlength=len(FEWEST_WORDS))

    def add(self, figures: Array, bands: Ints) -> None:
        """The figures [column, text] of some texts, and the bands of these. The rows may be longer."""
        _add(self.sums, self.squares, self.products, figures, bands)

    def packed(self) -> Ints:
        """All numbers as one vector."""
        return np.concatenate([numbers.ravel() for numbers in self._parts])

    def unpack(self, places: Ints, counts: Ints) -> None:
        """Add a packed vector, of which `places` are given."""
        numbers = np.zeros(sum(part.size for part in self._parts), np.int64)
        numbers[places] = counts
        ends = np.cumsum([part.size for part in self._parts])[:-1]
        for part, added in zip(self._parts, np.split(numbers, ends), strict=True):
            part += added.reshape(part.shape)

    def mean(self, band: int, column: int | Ints) -> Any:
        """The mean figure of a column, or of each of several, over the texts of a band."""
        return self._unit * self.sums[band, column] / int(self.queries[band])

    def compare(self, band: int, columns: Ints, single: int) -> ManyPaired:
        """Fused columns against the column of a single retriever: the t-tests over the texts of a band."""
        product = self.products[band, columns, single - self._columns]
        squares = self.squares[band, columns] - 2 * product + self.squares[band, single]
        total = self.sums[band, columns] - self.sums[band, single]
        return paired_t_of_many_sums(int(self.queries[band]), total, squares, self._unit)

    @property
    def _parts(self) -> tuple[Ints, Ints, Ints, Ints]:
        return self.queries, self.sums, self.squares, self.products


@compiled
def _add(sums, squares, products, figures, bands):  # type: ignore[no-untyped-def]
    columns, singles = products.shape[1:]
    for c in range(columns + singles):
        for n in range(bands.size):
            band = bands[n]
            if band < 0:
                continue
            whole = np.int64(figures[c, n])
            sums[band, c] += whole
            squares[band, c] += whole * whole
            if c < columns and whole:
                for s in range(singles):
                    products[band, c, s] += whole * np.int64(figures[columns + s, n])
