"""What each retriever adds to others: every cell over some retrievers, beside the same cell without one of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from fusion.grid import SINGLE, Cell
from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.names import print_subset
from fusion.statistics.paired import Aspect, PairedSums
from jobs.results.schemas import ADDITIONS_SCHEMA, table_of
from udfs.evaluation_plan import EvaluationPlan


class Addition(NamedTuple):
    """A cell over some retrievers, and what it is without one of them: the same cell, or the one retriever left."""

    cell: Cell
    without: Cell
    retriever: str
    others: frozenset[str]


def additions(metrics: pa.Table, evaluation: EvaluationPlan, sums: PairedSums | None) -> pa.Table:
    """One row per addition, label group and measure, under the ideal `all`; tested over texts where sums are given."""
    values: dict[tuple[str, Measure], dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        if row["value"] is not None and row["ideal"] == ALL:
            figures = values[row["label_group"], Measure(row["metric"], row["k"])]
            figures[Cell(row["normalization"], row["fusion"])].append(row["value"])
    made = list(_found(evaluation))

    def rows() -> Iterator[dict[str, Any]]:
        for (view, measure), figures in values.items():
            means = {cell: sum(folds) / len(folds) for cell, folds in figures.items()}
            for addition in made:
                value, without = means[addition.cell], means[addition.without]
                yield {
                    "label_group": view,
                    "metric": measure.metric,
                    "k": measure.k,
                    "normalization": addition.cell.scaling,
                    "fusion": addition.cell.fusion,
                    "retriever": addition.retriever,
                    "others": print_subset(addition.others),
                    "value": value,
                    "others_value": without,
                    "difference": value - without,
                    **_tested(addition, Aspect(view, measure, ALL), evaluation, sums),
                }

    return table_of(rows(), ADDITIONS_SCHEMA)


def _found(evaluation: EvaluationPlan) -> Iterator[Addition]:
    """Every cell of which the grid also has the one without one of its retrievers."""
    every = frozenset(evaluation.layout.retrievers)
    cells = {(cell.scaling, cell.fusion, frozenset(cell.subset) or every): cell for cell in evaluation.grid.cells}
    for (normalization, fusion, retrievers), cell in cells.items():
        for retriever in evaluation.layout.retrievers:
            others = retrievers - {retriever}
            if retriever not in retrievers or not others:
                continue
            alone = Cell(SINGLE, next(iter(others))) if len(others) == 1 else None
            without = alone or cells.get((normalization, fusion, others))
            if without is not None:
                yield Addition(cell, without, retriever, others)


def _tested(
    addition: Addition, aspect: Aspect, evaluation: EvaluationPlan, sums: PairedSums | None
) -> dict[str, float | int | None]:
    if sums is None:
        return {}
    i, j = evaluation.columns[addition.cell], evaluation.columns[addition.without]
    test = sums.compare(aspect, i, j)
    return {
        "queries": test.pairs,
        "p": test.p,
        "low": test.low,
        "high": test.high,
        "p_randomization": sums.randomization(aspect, i, j),
    }
