"""The tables that compare cells text by text: against the best, each with each, and by the labels and words of the
text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.grid import SINGLE, Cell
from fusion.metrics import Measure, text_measures
from fusion.statistics.paired import FEWEST_LABELS, Aspect, PairedSums
from fusion.statistics.significance import Paired, best_of
from fusion.statistics.tally import IDEALS
from fusion.statistics.text_lengths import FEWEST_WORDS, LengthSums, most_words
from jobs.results.schemas import COMPARISONS_SCHEMA, PAIRS_SCHEMA, TEXT_SIZES_SCHEMA, table_of
from udfs.evaluation_plan import EvaluationPlan


def comparisons(sums: PairedSums, metrics: pa.Table, evaluation: EvaluationPlan) -> pa.Table:
    """Every cell and single retriever against the best cell of each aspect, and against the retrievers."""
    values: dict[Aspect, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        aspect = Aspect(row["label_group"], Measure(row["metric"], row["k"]), row["ideal"])
        if row["value"] is not None and aspect in sums.same_as:
            values[aspect][Cell(row["normalization"], row["fusion"])].append(row["value"])

    def rows() -> Iterator[dict[str, Any]]:
        for aspect, cells in values.items():
            fused = {cell: sum(folds) / len(folds) for cell, folds in cells.items() if cell.normalization != SINGLE}
            others = [best_of(fused), *(cell for cell in cells if cell.normalization == SINGLE)]
            for other, cell in product(others, cells):
                if cell != other:
                    yield _compared(sums, evaluation, aspect, cell, other)

    return table_of(rows(), COMPARISONS_SCHEMA)


def pairs(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """Any two distinct columns under the ideal `all`. Cells that share a column are represented by the first one."""
    cell_of: dict[int, Cell] = {}
    for cell, column in evaluation.columns.items():
        cell_of.setdefault(column, cell)
    rows = (
        _compared(sums, evaluation, aspect, cell, other)
        for aspect in _aspects_of_all(evaluation)
        for cell, other in combinations(cell_of.values(), 2)
    )
    return table_of(rows, PAIRS_SCHEMA)


def text_sizes(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """Each cell against each single retriever over the texts with few, and with many relevant labels, under the ideal
    `all`."""

    def rows() -> Iterator[dict[str, Any]]:
        for aspect, size in product(_aspects_of_all(evaluation), range(len(FEWEST_LABELS))):
            if sums.texts(aspect, size):
                most = FEWEST_LABELS[size + 1] - 1 if size + 1 < len(FEWEST_LABELS) else None
                described = {**_described(aspect), "fewest": FEWEST_LABELS[size], "most": most}
                compare, mean = partial(sums.compare, aspect, size=size), partial(sums.mean, aspect, size=size)
                yield from _beside_retrievers(evaluation, described, compare, mean)

    return table_of(rows(), TEXT_SIZES_SCHEMA)


def text_lengths(lengths: Mapping[str, LengthSums], evaluation: EvaluationPlan) -> pa.Table:
    """Each cell against each single retriever over short and over long texts, by the decisive measure under the ideal
    `all`. No rows where the numbers of words are not known."""

    def rows() -> Iterator[dict[str, Any]]:
        for view, sums in lengths.items():
            assert evaluation.decisive is not None
            aspect = Aspect(view, evaluation.decisive, IDEALS[0])
            for band in np.flatnonzero(sums.queries).tolist():
                described = {**_described(aspect), "fewest": FEWEST_WORDS[band], "most": most_words(band)}
                compare, mean = partial(sums.compare, band), partial(sums.mean, band)
                yield from _beside_retrievers(evaluation, described, compare, mean)

    return table_of(rows(), TEXT_SIZES_SCHEMA)


def _beside_retrievers(
    evaluation: EvaluationPlan,
    described: dict[str, Any],
    compare: Callable[[int, int], Paired],
    mean: Callable[[int], float],
) -> Iterator[dict[str, Any]]:
    """A row for each cell and each single retriever, over the texts that `compare` and `mean` look at."""
    for retriever in evaluation.layout.retrievers:
        single = evaluation.columns[Cell(SINGLE, retriever)]
        tests: dict[int, Paired] = {}
        for cell, column in evaluation.grid.column_of.items():
            if column not in tests:
                tests[column] = compare(column, single)
            yield {
                **described,
                **_tested(tests[column]),
                "normalization": cell.normalization,
                "fusion": cell.fusion,
                "retriever": retriever,
                "value": mean(column),
                "retriever_value": mean(single),
            }


def _aspects_of_all(evaluation: EvaluationPlan) -> list[Aspect]:
    measures = text_measures(evaluation.measures)
    return [Aspect(view, measure, IDEALS[0]) for view, measure in product(evaluation.views, measures)]


def _compared(sums: PairedSums, evaluation: EvaluationPlan, aspect: Aspect, cell: Cell, other: Cell) -> dict[str, Any]:
    """A row for two cells; a table takes those columns that its schema has."""
    i, j = evaluation.columns[cell], evaluation.columns[other]
    return {
        **_described(aspect),
        **_tested(sums.compare(aspect, i, j)),
        "normalization": cell.normalization,
        "fusion": cell.fusion,
        "against_normalization": other.normalization,
        "against_fusion": other.fusion,
        "p_randomization": sums.randomization(aspect, i, j),
    }


def _described(aspect: Aspect) -> dict[str, Any]:
    measure = aspect.measure
    return {"label_group": aspect.view, "metric": measure.metric, "k": measure.k, "ideal": aspect.ideal}


def _tested(test: Paired) -> dict[str, Any]:
    return {**test._asdict(), "queries": test.pairs}
