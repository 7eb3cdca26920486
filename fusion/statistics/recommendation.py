"""One cell for all columns: the one with the smallest mean regret."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, NamedTuple, TypeVar

Column = TypeVar("Column", bound=Hashable)
Cell = TypeVar("Cell", bound=Hashable)


class Recommended(NamedTuple, Generic[Column, Cell]):
    cell: Cell
    regret: float
    winners: dict[Column, Cell]


def recommend(figures: Mapping[Column, Mapping[Cell, float]]) -> Recommended[Column, Cell]:
    winners = {column: max(cells, key=lambda cell: cells[cell]) for column, cells in figures.items()}
    everywhere = [cell for cell in next(iter(figures.values())) if all(cell in cells for cells in figures.values())]
    regrets = {
        cell: sum(cells[winners[column]] - cells[cell] for column, cells in figures.items()) / len(figures)
        for cell in everywhere
    }
    best = min(regrets, key=lambda cell: regrets[cell])
    return Recommended(best, regrets[best], winners)
