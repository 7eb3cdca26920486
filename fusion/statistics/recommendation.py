"""One cell for all: the one that loses least against the best cell of each aspect.

The regret of a cell in an aspect is what the best cell has more, in points (of percent). A cell loses in an aspect if a
single retriever has more there. The recommended cell is of those that lose in the fewest aspects, none where that is
possible, and has the smallest mean regret of them over all aspects; of those that tie, it has the smaller worst regret
or comes first.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from fusion.cells import SINGLE, Cell
from fusion.errors import InputError

AspectT = TypeVar("AspectT", bound=Hashable)
DECIMALS = 9
"""Regrets that differ by less are equal: figures that are equal on paper differ in their last bits."""


@dataclass(frozen=True)
class Recommendation(Generic[AspectT]):
    """The recommended cell, and what it is chosen from."""

    cell: Cell
    mean_regret: float
    worst_regret: float
    worst_aspect: AspectT
    """Where the worst regret is; of equal ones, the first aspect."""
    tied: tuple[Cell, ...]
    """Other cells with the same losses, mean regret and worst regret, in the order of the grid."""
    lost: tuple[AspectT, ...]
    """The aspects in which a single retriever is better."""
    winners: dict[AspectT, tuple[Cell, ...]]
    """The best cells of each aspect."""
    regrets: dict[Cell, dict[AspectT, float]]


def recommend(figures: Mapping[AspectT, Mapping[Cell, float]]) -> Recommendation[AspectT]:
    """From shares of 1 by aspect (those of ideal `all`) and cell, in the order of the grid. Single retrievers are what
    cells must not lose to, and are not recommended themselves; neither is a cell that some aspect lacks."""
    fused = {
        aspect: {cell: value for cell, value in cells.items() if cell.normalization != SINGLE}
        for aspect, cells in figures.items()
    }
    first = next(iter(fused.values()), {})
    complete = [cell for cell in first if all(cell in cells for cells in fused.values())]
    if not complete:
        raise InputError("no cell has a figure in every aspect, so none can be recommended")
    best = {aspect: max(cells.values()) for aspect, cells in fused.items()}
    regrets = {
        cell: {aspect: round(100 * (best[aspect] - cells[cell]), DECIMALS) for aspect, cells in fused.items()}
        for cell in complete
    }
    lost = {cell: _lost(cell, figures) for cell in complete}
    ranked = {
        cell: (
            len(lost[cell]),
            round(math.fsum(by_aspect.values()) / len(by_aspect), DECIMALS),
            max(by_aspect.values()),
        )
        for cell, by_aspect in regrets.items()
    }
    chosen = min(complete, key=lambda cell: ranked[cell])
    _, mean, worst = ranked[chosen]
    return Recommendation(
        cell=chosen,
        mean_regret=mean,
        worst_regret=worst,
        worst_aspect=max(regrets[chosen], key=lambda aspect: regrets[chosen][aspect]),
        tied=tuple(cell for cell in complete if ranked[cell] == ranked[chosen] and cell != chosen),
        lost=lost[chosen],
        winners={
            aspect: tuple(cell for cell, value in cells.items() if round(100 * (best[aspect] - value), DECIMALS) == 0)
            for aspect, cells in fused.items()
        },
        regrets=regrets,
    )


def _lost(cell: Cell, figures: Mapping[AspectT, Mapping[Cell, float]]) -> tuple[AspectT, ...]:
    """The aspects in which a single retriever is better than the cell."""

    def behind(cells: Mapping[Cell, float]) -> float:
        singles = (value for other, value in cells.items() if other.normalization == SINGLE)
        return round(100 * (max(singles, default=cells[cell]) - cells[cell]), DECIMALS)

    return tuple(aspect for aspect, cells in figures.items() if behind(cells) > 0)
