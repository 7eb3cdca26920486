"""One cell for all: the one that loses least against the best cell of each column of figures.

The regret of a cell in a column is what the best cell has more, in points (of percent). The recommended cell has the
smallest mean regret over all columns; of those that tie, the one with the smaller worst regret, then the first.
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
    """Other cells with the same mean and worst regret, in the order of the grid."""
    winners: dict[Column, tuple[Cell, ...]]
    """The best cells of each column."""
    regrets: dict[Cell, dict[Column, float]]


def recommend(figures: Mapping[Column, Mapping[Cell, float]]) -> Recommendation[Column]:
    """From shares of 1 by column (those of ideal `all`) and cell, in the order of the grid. Single retrievers are not
    recommended; neither is a cell that some column lacks."""
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
    ranked = {
        cell: (round(math.fsum(by_column.values()) / len(by_column), DECIMALS), max(by_column.values()))
        for cell, by_column in regrets.items()
    }
    chosen = min(complete, key=lambda cell: ranked[cell])
    return Recommendation(
        chosen,
        *ranked[chosen],
        max(regrets[chosen], key=lambda column: regrets[chosen][column]),
        tuple(cell for cell in complete if ranked[cell] == ranked[chosen] and cell != chosen),
        {
            column: tuple(cell for cell, value in cells.items() if round(100 * (best[column] - value), DECIMALS) == 0)
            for column, cells in fused.items()
        },
        regrets,
    )
