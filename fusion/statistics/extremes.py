"""The texts at which two columns differ most, for every pair of a fused column and a single retriever.

Which pair will be asked for is known only after the last text, and a second pass over the texts costs a quarter of the
first one. So all pairs are watched on the way: one comparison per text and pair, and a few numbers each to keep.
"""

from __future__ import annotations

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.types import Array, Floats, Ints

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
        _add(self.difference, self.figure, self.text, figures, numbers)


@compiled
def _add(difference, figure, number, figures, texts):  # type: ignore[no-untyped-def]
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
