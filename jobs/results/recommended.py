"""The cell that a report will recommend, and the retrievers it is measured by: what single texts and labels are kept
for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa

from fusion.errors import InputError
from fusion.grid import SINGLE, Cell
from fusion.label_groups import ALL
from fusion.metrics import Measure, decisive
from fusion.statistics.recommendation import recommend
from fusion.statistics.significance import best_of
from fusion.statistics.summary import mean_std
from udfs.evaluation_plan import EvaluationPlan

Aspect = tuple[str, Measure]
"""A label group and a measure of the paper's protocol."""


class Chosen(NamedTuple):
    """The recommended cell and the best single retriever of a label group, by the decisive measure."""

    cell: Cell
    single: Cell


def chosen_cells(metrics: pa.Table, evaluation: EvaluationPlan) -> dict[str, Chosen]:
    """By label group. Where no cell has a figure in every aspect, each group's best cell stands in for it."""
    means = _means(metrics)
    recommended = _recommended(means)
    measure = decisive(evaluation.measures)
    chosen = {}
    for group in evaluation.views:
        cells = means.get((group, measure), {})
        fused = {cell: mean for cell, mean in cells.items() if cell.normalization != SINGLE}
        singles = {cell: mean for cell, mean in cells.items() if cell.normalization == SINGLE}
        if fused and singles:
            chosen[group] = Chosen(recommended or best_of(fused), best_of(singles))
    return chosen


def _recommended(means: Mapping[Aspect, Mapping[Cell, float]]) -> Cell | None:
    try:
        return recommend(means).cell
    except InputError:
        return None


def _means(metrics: pa.Table) -> dict[Aspect, dict[Cell, float]]:
    """Over the folds, by the paper's protocol."""
    values: dict[Aspect, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        cell = Cell(row["normalization"], row["fusion"])
        # What strategies do differs by fold; one cell is to be shown.
        if row["ideal"] == ALL and row["value"] is not None and not cell.is_strategy:
            aspect = row["label_group"], Measure(row["metric"], row["k"])
            values[aspect][cell].append(row["value"])
    return {aspect: {cell: mean_std(folds).mean for cell, folds in cells.items()} for aspect, cells in values.items()}
