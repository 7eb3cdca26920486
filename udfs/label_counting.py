"""Counts of labels inside the workers, for metrics that are means over labels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fusion.grid import Cell
from fusion.statistics.label_counts import BestLabels, LabelCounts, carried_by, label_sums
from fusion.types import Array, Ints
from udfs.list_codes import LabelIndex, Layout
from udfs.text_batches import Batch

LABELS = "labels "
"""The beginning of the parts that count labels; then come a view, a column and the number of cut-offs. Added up, they
are sums over labels, floats and no counts."""


@dataclass(frozen=True)
class LabelPlan:
    """What is counted per label, where a metric is a mean over labels."""

    index: LabelIndex
    """The judged labels."""
    cells: tuple[Cell, ...]
    """The cells that have such figures."""
    cutoffs: tuple[int, ...]


def part_name(view: str, column: int, cutoffs: int) -> str:
    """The part that holds the counts of a view and a column."""
    return f"{LABELS}{view} {column} {cutoffs}"


def sums_over_labels(part: str, counts: Ints) -> bytes:
    """From all counts of a part to what follows from them (see fusion/statistics/label_counts.py), as floats."""
    return np.array(label_sums(counts, int(part.rpartition(" ")[2]))).tobytes()


class LabelCounter:
    """Counts the labels that texts carry and that chosen columns list for them."""

    def __init__(self, plan: LabelPlan, layout: Layout) -> None:
        self._plan, self._layout = plan, layout
        self._counts = LabelCounts(plan.cutoffs)

    @property
    def entries(self) -> int:
        """How many counts wait to be sent."""
        return self._counts.entries

    def add(self, batch: Batch, view: str, best: BestLabels, counted: Array) -> None:
        """The texts of a batch that count in a view, with the labels that were listed."""
        index, groups, folds = self._plan.index, self._layout.group_names, np.unique(batch.fold)
        inside = [counted & (batch.fold == fold) for fold in folds]
        carried = [index.places(batch.decode(batch.texts.relevant_labels(groups, view, here))) for here in inside]
        for column in sorted(best.columns):
            listed = best.of(view, column)
            place, hit = index.places(batch.decode(listed.label)), carried_by(batch.texts, listed)
            # Labels that no text carries do not count.
            judged = place < len(index.ids)
            for fold, here, of_texts in zip(folds, inside, carried, strict=True):
                mine = judged & here[listed.text]
                self._counts.add((int(fold), view, column), of_texts, place[mine], listed.rank[mine], hit[mine])

    def packed(self) -> Iterator[tuple[int, str, Ints, Ints]]:
        """The counts that wait: fold and part, the places in the part's vector, and the counts there."""
        for (fold, view, column), places, counts in self._counts.packed():
            yield fold, part_name(view, column, len(self._counts.cutoffs)), places, counts
