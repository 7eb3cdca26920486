"""The grid: the chosen cells, each distinct column computed once."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, groupby, product
from typing import NamedTuple

import numpy as np

from fusion import names
from fusion.cells import SINGLE as SINGLE
from fusion.cells import Cell as Cell
from fusion.errors import ConfigError, unknown_name
from fusion.grid.trained import Learned
from fusion.kernel.candidates import DEFAULT, Candidates, Policies
from fusion.kernel.pools import Pools
from fusion.models.models import ChosenCell
from fusion.models.strategies import ChosenScores, Strategy
from fusion.registry import FUSIONS, NORMALIZATIONS, Normalization
from fusion.types import Array, Floats

UNREAD = "none"
"""The normalisation of a cell that names only a fusion, which then must read ranks."""


class Column(NamedTuple):
    """What is computed for one cell or more."""

    normalization: str | None
    """None for a fusion that reads only ranks."""
    fusion: str
    lists: tuple[int, ...]
    """The retrievers whose lists are fused, by number; none: all of them."""


class Grid:
    """The chosen cells and the columns that have to be computed for them.

    A fusion that reads ranks sees only the order within each list, which every normalisation keeps: one column
    serves all of its cells, whatever the parameters of their normalisations.
    """

    def __init__(
        self,
        cells: Iterable[Cell],
        retrievers: Sequence[str] = (),
        policies: Policies = DEFAULT,
        learned: Mapping[str, Learned] | None = None,
        strategies: Mapping[Cell, Strategy] | None = None,
    ) -> None:
        """`retrievers`: in the order of the lists; cells that name one need them. `learned`: by view, for cells whose
        fusions are trained. `strategies`: cells whose fusion differs by fold and view; they come after the others."""
        self.learned = dict(learned or {})
        self.strategies = dict(strategies or {})
        self.retrievers = tuple(retrievers)
        self.policies = policies
        fixed = [cell for cell in dict.fromkeys(cells) if not cell.is_strategy]
        self.cells = [*fixed, *self.strategies]
        # What a strategy chose is computed, whether it is a cell of the grid or not.
        chosen = [cell for strategy in self.strategies.values() for cell in strategy.cells]
        column_of = {cell: self._column(cell) for cell in dict.fromkeys([*fixed, *chosen])}
        order = NORMALIZATIONS.names()
        # By lists and normalisation, whatever its parameters, so that what the cells of one share is computed once.
        self._fixed = sorted(
            dict.fromkeys(column_of.values()),
            key=lambda column: (
                column.lists,
                order.index(column.normalization.partition("(")[0]) if column.normalization else -1,
                column.normalization or "",
            ),
        )
        """The columns that are the same in all folds and views."""
        self.columns = [*self._fixed, *(Column(*cell, ()) for cell in self.strategies)]
        fusions = dict.fromkeys(column.fusion for column in self._fixed)
        self.trained = [name for name in fusions if FUSIONS[name].parameters.trained]
        """The fusions that have to learn first."""
        self._names_retrievers = any(cell.subset or FUSIONS[cell.fusion].weights for cell in column_of)
        place = {column: number for number, column in enumerate(self._fixed)}
        self._place_of = {cell: place[column] for cell, column in column_of.items()}
        self.column_of = {cell: self._place_of[cell] for cell in fixed}
        self.column_of |= {cell: number for number, cell in enumerate(self.strategies, start=len(self._fixed))}

    @classmethod
    def of(cls, normalizations: str | Iterable[str], fusions: str | Iterable[str]) -> Grid:
        """All combinations of the named algorithms; `all` stands for the paper's six and ten, `everything` for all that
        need no training."""
        return cls(cross(normalizations, fusions))

    def _column(self, cell: Cell) -> Column:
        fusion, subset = FUSIONS[cell.fusion], cell.subset
        for name in [*subset, *fusion.weights]:
            if self.retrievers and name not in self.retrievers:
                raise unknown_name(f"retriever (in the cell {cell})", name, self.retrievers)
        lists = tuple(sorted(map(self.retrievers.index, subset))) if self.retrievers else ()
        every = len(lists) == len(self.retrievers)
        scaling = cell.scaling if subset else cell.normalization
        return Column(None if fusion.reads == "ranks" else scaling, cell.fusion, () if every else lists)

    def lists_of(self, view: str, fold: int) -> list[tuple[int, ...]]:
        """By column, the retrievers whose lists are fused, by number; none: all of them. What a strategy chose may
        differ by fold and view."""
        models = [strategy.of(view, fold) for strategy in self.strategies.values()]
        chosen = [
            self.columns[self._place_of[model.cell]].lists if isinstance(model, ChosenCell) else () for model in models
        ]
        return [*(column.lists for column in self._fixed), *chosen]

    @property
    def normalizations(self) -> list[Normalization]:
        """Those whose scores some column reads."""
        used = dict.fromkeys(column.normalization for column in self._fixed)
        return [NORMALIZATIONS[name] for name in used if name]

    def fused(
        self,
        pools: Pools,
        normalized: Mapping[str, Floats] | None = None,
        precision: type[np.floating] = np.float32,
        only: Container[int] | None = None,
    ) -> Iterator[tuple[int, Array]]:
        """Every column's scores for the pools of a text block (or those of some columns), rounded so that scores
        equal on paper tie; NaN for a candidate that is in none of the lists that a column fuses.

        `normalized`: scores that were normalised elsewhere, as matrices like `pools.score`.
        """
        if self._names_retrievers and not self.retrievers:
            raise ValueError("cells name retrievers, but the grid does not know them")
        strategies = {cell: s for cell, s in self.strategies.items() if only is None or self.column_of[cell] in only}
        if not strategies:
            numbers = [n for n in range(len(self._fixed)) if only is None or n in only]
            yield from self._fixed_scores(pools, normalized or {}, precision, numbers)
            return
        chosen = ChosenScores(strategies, self._place_of, self.retrievers, pools)
        computed = [n for n in range(len(self._fixed)) if only is None or n in only or n in chosen.columns]
        for column, fused in self._fixed_scores(pools, normalized or {}, precision, computed):
            chosen.keep(column, fused)
            if only is None or column in only:
                yield column, fused
        for cell, strategy in strategies.items():
            yield self.column_of[cell], chosen.scores(strategy, precision)

    def _fixed_scores(
        self, pools: Pools, normalized: Mapping[str, Floats], precision: type[np.floating], numbers: Sequence[int]
    ) -> Iterator[tuple[int, Array]]:
        """The scores of some of the columns that are the same in all folds and views."""
        columns = ((number, self.columns[number]) for number in numbers)
        for some, numbered in groupby(columns, key=lambda item: item[1].lists):
            lists = some or range(len(pools.position))
            retrievers = [self.retrievers[number] if self.retrievers else str(number) for number in lists]
            of_lists, inside = pools.of_lists(some) if some else (pools, None)
            candidates = Candidates(of_lists, policies=self.policies)
            name: str | None = None
            for number, column in numbered:
                if column.normalization != name:
                    assert column.normalization is not None
                    name = column.normalization
                    known = normalized.get(name)
                    if known is not None and inside is not None:
                        known = known[list(lists)][:, inside]
                    candidates = Candidates(of_lists, NORMALIZATIONS[name], known, self.policies)
                fusion = FUSIONS[column.fusion]
                learned = self.learned[pools.view].of_lists(lists) if fusion.parameters.trained else None
                scores = fusion.kernel(candidates, **fusion.arguments(retrievers, learned)).astype(precision)
                if inside is None:
                    yield number, scores
                    continue
                fused = np.full(pools.position.shape[1], np.nan, precision)
                fused[inside] = scores
                yield number, fused


def cross(normalizations: str | Iterable[str], fusions: str | Iterable[str]) -> list[Cell]:
    """All combinations of the named algorithms."""
    pairs = product(NORMALIZATIONS.chosen(normalizations), FUSIONS.chosen(fusions))
    return [Cell(normalization.name, fusion.name) for normalization, fusion in pairs]


def parse_cells(text: str) -> list[Cell]:
    """The cells that a name stands for: several if it lists several values of a parameter."""
    subset, normalization, fusion = names.parse_cell(text)
    alone = not normalization
    if alone and (fusion in NORMALIZATIONS or any(entry.reads == "scores" for entry in FUSIONS.chosen(fusion))):
        raise ConfigError(f"cell {text!r}: expected NORMALIZATION+FUSION, as in 'zmuv+combmnz'")
    cells = cross(normalization or UNREAD, fusion)
    return [cell.within(subset) for cell in cells] if subset else cells


def all_subsets(cells: Iterable[Cell], retrievers: Sequence[str]) -> list[Cell]:
    """The cells, and each of them fixed to every subset of two or more retrievers that is not all of them. Cells that
    are fixed already stay as they are."""
    subsets = [subset for size in range(2, len(retrievers)) for subset in combinations(retrievers, size)]
    over_all = list(cells)
    return over_all + [cell.within(subset) for subset in subsets for cell in over_all if not cell.subset]
