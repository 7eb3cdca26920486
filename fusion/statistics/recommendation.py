"""One cell for all: the one that loses least against the best cell of each column of figures.

The regret of a cell in a column is what the best cell has more, in points (of percent). A cell loses a column if a
single retriever has more there. The recommended cell is of those that lose the fewest columns, none where that is
possible, and has the smallest mean regret of them over all columns; of those that tie, it has the smaller worst regret
or comes first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fusion.errors import InputError
from fusion.grid import SINGLE, Cell

Column = TypeVar("Column", bound=Hashable)
DECIMALS = 9
"""Regrets that differ by less are equal: figures that are equal on paper differ in their last bits."""


@dataclass(frozen=True)
class Recommendation(Generic[Column]):
    """The recommended cell, and what it is chosen from."""

    cell: Cell
    mean_regret: float
    worst_regret: float
    worst_column: Column
    """Where the worst regret is; of equal ones, the first column."""
    tied: tuple[Cell, ...]
    """Other cells with the same losses, mean regret and worst regret, in the order of the grid."""
    lost: tuple[Column, ...]
    """The columns in which a single retriever is better."""
    winners: dict[Column, tuple[Cell, ...]]
    """The best cells of each column."""
    regrets: dict[Cell, dict[Column, float]]


def recommend(figures: Mapping[Column, Mapping[Cell, float]]) -> Recommendation[Column]:
    """From shares of 1 by column (those of ideal `all`) and cell, in the order of the grid. Single retrievers are what
    cells must not lose to, and are not recommended themselves; neither is a cell that some column lacks."""
    fused = {
        column: {cell: value for cell, value in cells.items() if cell.normalization != SINGLE}
        for column, cells in figures.items()
    }
    first = next(iter(fused.values()), {})
    complete = [cell for cell in first if all(cell in cells for cells in fused.values())]
    if not complete:
        raise InputError("no cell has a figure in every column, so none can be recommended")
    best = {column: max(cells.values()) for column, cells in fused.items()}
    regrets = {
        cell: {column: round(100 * (best[column] - cells[cell]), DECIMALS) for column, cells in fused.items()}
        for cell in complete
    }
    lost = {cell: _lost(cell, figures) for cell in complete}
    ranked = {
        cell: (
            len(lost[cell]),
            round(math.fsum(by_column.values()) / len(by_column), DECIMALS),
            max(by_column.values()),
        )
        for cell, by_column in regrets.items()
    }
    chosen = min(complete, key=lambda cell: ranked[cell])
    _, mean, worst = ranked[chosen]
    return Recommendation(
        chosen,
        mean,
        worst,
        max(regrets[chosen], key=lambda column: regrets[chosen][column]),
        tuple(cell for cell in complete if ranked[cell] == ranked[chosen] and cell != chosen),
        lost[chosen],
        {
            column: tuple(cell for cell, value in cells.items() if round(100 * (best[column] - value), DECIMALS) == 0)
            for column, cells in fused.items()
        },
        regrets,
    )


def _lost(cell: Cell, figures: Mapping[Column, Mapping[Cell, float]]) -> tuple[Column, ...]:
    """The columns in which a single retriever is better than the cell."""

    def behind(cells: Mapping[Cell, float]) -> float:
        singles = (value for other, value in cells.items() if other.normalization == SINGLE)
        return round(100 * (max(singles, default=cells[cell]) - cells[cell]), DECIMALS)

    return tuple(column for column, cells in figures.items() if behind(cells) > 0)
