"""What is kept about every pair of a fused cell and a single retriever while texts go by: sums by length, and extremes.

As in paired.py, figures are whole numbers, so sums are exact. Here only the pairs of a column and a single retriever
are of interest, and only one metric, so few numbers are kept.

The texts at which two columns differ most, for every pair of a fused column and a single retriever.

Which pair will be asked for is known only after the last text, and a second pass over the texts costs a quarter of the
first one. So all pairs are watched on the way: one comparison per text and pair, and a few numbers each to keep.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fusion.compiled import compiled
from fusion.statistics.significance import ManyPaired, paired_t_of_many_sums
from fusion.types import Array, Floats, Ints

FEWEST_WORDS = (0, 21, 51, 101, 201, 501, 1001)
"""Classes of texts by their number of words: up to 20, 21 to 50, and so on, 1,001 and more."""
UNKNOWN = -1
"""The band of a text whose length is not known."""


def most_words(band: int) -> int | None:
    """The largest number of words of a band; None: without end."""
    return FEWEST_WORDS[band + 1] - 1 if band + 1 < len(FEWEST_WORDS) else None


class LengthSums:
    """`queries[band]`, `sums[band, column]`, `squares[band, column]` and `products[band, column, single]` of a metric
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
        _add_lengths(self.sums, self.squares, self.products, figures, bands)

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
def _add_lengths(sums, squares, products, figures, bands):  # type: ignore[no-untyped-def]
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


HELPED, HURT = "helped", "hurt"
OUTCOMES = (HELPED, HURT)
"""The column has the greater figure, or the retriever has."""
NOBODY = -1


class Extremes:
    """Arrays [outcome, column, retriever, place]: the texts with the greatest differences, greatest first, and of
    equal ones the text of the lower number. Texts without a difference do not count."""

    def __init__(self, columns: int, retrievers: int, keep: int) -> None:
        """`columns` fused ones; the single retrievers' columns come behind them."""
        shape = (len(OUTCOMES), columns, retrievers, keep)
        self.difference: Floats = np.zeros(shape)
        self.figure: Floats = np.zeros(shape)
        """The fused column's figure."""
        self.text: Ints = np.full(shape, NOBODY, np.int64)

    def add(self, figures: Array, numbers: Ints) -> None:
        """The figures [column, text] of some texts, and the numbers of these. The rows may be longer."""
        _keep_extremes(self.difference, self.figure, self.text, figures, numbers)


@compiled
def _keep_extremes(difference, figure, number, figures, texts):  # type: ignore[no-untyped-def]
    _, columns, retrievers, keep = difference.shape
    for c in range(columns):
        for r in range(retrievers):
            of_column, of_retriever = figures[c], figures[columns + r]
            for n in range(texts.size):
                change = of_column[n] - of_retriever[n]
                if change == 0:
                    continue
                outcome = 0 if change > 0 else 1
                size = abs(change)
                kept, whose = difference[outcome, c, r], number[outcome, c, r]
                place = keep
                while place > 0 and (
                    size > kept[place - 1] or (size == kept[place - 1] and texts[n] < whose[place - 1])
                ):
                    place -= 1
                if place == keep:
                    continue
                for lower in range(keep - 1, place, -1):
                    kept[lower] = kept[lower - 1]
                    whose[lower] = whose[lower - 1]
                    figure[outcome, c, r, lower] = figure[outcome, c, r, lower - 1]
                kept[place] = size
                whose[place] = texts[n]
                figure[outcome, c, r, place] = of_column[n]
