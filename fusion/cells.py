"""Cells by name: a normalisation with a fusion, a single retriever, or a strategy that was tuned or learned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fusion import names

SINGLE = "single"
"""The normalisation in the rows of single retrievers; their fusion is the retriever's name."""
TUNED, LEARNED = "tuned", "learned"
"""The normalisation of strategies, which choose or learn by fold and label group; their fusion says
how: `tuned+cell`, `learned+logistic`."""


class Cell(NamedTuple):
    """A normalisation with a fusion; the two names are its identity. A cell that is fixed to some of the retrievers
    says so in front of its normalisation: `bm25+dense: zmuv`."""

    normalization: str
    fusion: str

    def __str__(self) -> str:
        return f"{self.normalization}+{self.fusion}"

    @property
    def subset(self) -> tuple[str, ...]:
        """The retrievers that the cell is fixed to; none: it takes all."""
        if ":" not in self.normalization:
            return ()
        return names.parse_subset(names.split(self.normalization, ":")[0])

    @property
    def scaling(self) -> str:
        """The normalisation alone."""
        return names.split(self.normalization, ":")[-1]

    def rescaled(self, normalization: str) -> Cell:
        """The same cell with another normalisation."""
        cell = Cell(normalization, self.fusion)
        return cell.within(self.subset) if self.subset else cell

    def within(self, subset: Iterable[str]) -> Cell:
        """The same cell, fixed to some retrievers."""
        return Cell(f"{names.print_subset(subset)}: {self.scaling}", self.fusion)

    @property
    def is_strategy(self) -> bool:
        """Whether it was chosen or learned on judged texts, and differs by fold and label group."""
        return self.normalization in (TUNED, LEARNED)


ANY_FOLD = -1
"""The fold of evidence that serves all folds."""
