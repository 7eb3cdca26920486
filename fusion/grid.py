"""The grid: every chosen normalisation with every chosen fusion, each distinct column computed once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.kernel.pools import Pools
from fusion.registry import FUSIONS, NORMALIZATIONS, Fusion, Normalization, choose
from fusion.types import Floats, Singles

SINGLE = "single"
"""What stands for the normalisation in the rows of single retrievers; their fusion is the retriever's name."""


class Cell(NamedTuple):
    """A normalisation with a fusion; the two names are its identity."""

    normalization: str
    fusion: str

    def __str__(self) -> str:
        return f"{self.normalization}+{self.fusion}"


class Grid:
    """The chosen cells and the columns that have to be computed for them.

    A fusion that reads ranks sees only the order within each list, which every normalisation keeps: one column
    serves all of its cells.
    """

    def __init__(self, cells: Iterable[Cell]) -> None:
        self.cells = list(dict.fromkeys(cells))
        columns = dict.fromkeys(self._column(cell) for cell in self.cells)
        # By normalisation, so that what the cells of one share is computed once.
        self.columns = sorted(columns, key=lambda column: NORMALIZATIONS.names().index(column[0]) if column[0] else -1)
        self.column_of = {cell: self.columns.index(self._column(cell)) for cell in self.cells}

    @classmethod
    def of(cls, normalizations: str | Iterable[str], fusions: str | Iterable[str]) -> Grid:
        """All combinations of the named algorithms; `all` stands for the paper's six and ten."""
        return cls(
            Cell(normalization.name, fusion.name)
            for normalization in chosen_normalizations(normalizations)
            for fusion in chosen_fusions(fusions)
        )

    @staticmethod
    def _column(cell: Cell) -> tuple[str | None, str]:
        return (None if FUSIONS[cell.fusion].reads == "ranks" else cell.normalization, cell.fusion)

    @property
    def normalizations(self) -> list[Normalization]:
        """Those whose scores some column reads."""
        return [NORMALIZATIONS[name] for name in dict.fromkeys(name for name, _ in self.columns) if name]

    def fused(self, pools: Pools, normalized: Mapping[str, Floats] | None = None) -> Iterator[tuple[int, Singles]]:
        """Every column's scores for a block of pools, rounded so that scores equal on paper tie.

        `normalized`: scores that were normalised elsewhere, as matrices like `pools.score`.
        """
        candidates = Candidates(pools)
        name: str | None = None
        for c, (normalization, fusion) in enumerate(self.columns):
            if normalization != name:
                assert normalization is not None
                name = normalization
                candidates = Candidates(pools, NORMALIZATIONS[name], (normalized or {}).get(name))
            yield c, FUSIONS[fusion].kernel(candidates).astype(np.float32)


def chosen_normalizations(names: str | Iterable[str]) -> list[Normalization]:
    return choose(NORMALIZATIONS, names, [entry.name for entry in NORMALIZATIONS if entry.standard])


def chosen_fusions(names: str | Iterable[str]) -> list[Fusion]:
    return choose(FUSIONS, names, FUSIONS.names())
