"""The tables that compare cells text by text: against the best, each with each, and by the labels and words of the
text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.grid import SINGLE, Cell
from fusion.metrics import Measure, text_measures
from fusion.statistics.paired import FEWEST_LABELS, Aspect, PairedSums
from fusion.statistics.significance import ManyPaired, best_of
from fusion.statistics.tally import IDEALS
from fusion.statistics.text_lengths import FEWEST_WORDS, LengthSums, most_words
from fusion.types import Ints
from jobs.results.schemas import COMPARISONS_SCHEMA, PAIRS_SCHEMA, TEXT_SIZES_SCHEMA, table_of_groups
from udfs.evaluation_plan import EvaluationPlan


def comparisons(sums: PairedSums, metrics: pa.Table, evaluation: EvaluationPlan) -> pa.Table:
    """Every cell and single retriever against the best cell of each aspect, and against the retrievers."""
    values: dict[Aspect, dict[Cell, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in metrics.to_pylist():
        aspect = Aspect(row["label_group"], Measure(row["metric"], row["k"]), row["ideal"])
        if row["value"] is not None and aspect in sums.same_as:
            values[aspect][Cell(row["normalization"], row["fusion"])].append(row["value"])

    def groups() -> Iterator[dict[str, Any]]:
        for aspect, cells in values.items():
            fused = {cell: sum(folds) / len(folds) for cell, folds in cells.items() if cell.normalization != SINGLE}
            others = [best_of(fused), *(cell for cell in cells if cell.normalization == SINGLE)]
            chosen = [(cell, other) for other, cell in product(others, cells) if cell != other]
            yield _compared(sums, evaluation, aspect, chosen)

    return table_of_groups(groups(), COMPARISONS_SCHEMA)


def pairs(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """Any two distinct columns under the ideal `all`. Cells that share a column are represented by the first one."""
    cell_of: dict[int, Cell] = {}
    for cell, column in evaluation.columns.items():
        cell_of.setdefault(column, cell)
    chosen = list(combinations(cell_of.values(), 2))
    groups = (_compared(sums, evaluation, aspect, chosen) for aspect in _aspects_of_all(evaluation))
    return table_of_groups(groups, PAIRS_SCHEMA)


def text_sizes(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """Each cell against each single retriever over the texts with few, and with many relevant labels, under the ideal
    `all`."""

    def groups() -> Iterator[dict[str, Any]]:
        for aspect, size in product(_aspects_of_all(evaluation), range(len(FEWEST_LABELS))):
            if sums.texts(aspect, size):
                most = FEWEST_LABELS[size + 1] - 1 if size + 1 < len(FEWEST_LABELS) else None
                described = {**_described(aspect), "fewest": FEWEST_LABELS[size], "most": most}
                compare, mean = partial(sums.compare_many, aspect, size=size), partial(sums.mean, aspect, size=size)
                yield from _beside_retrievers(evaluation, described, compare, mean)

    return table_of_groups(groups(), TEXT_SIZES_SCHEMA)


def text_lengths(lengths: Mapping[str, LengthSums], evaluation: EvaluationPlan) -> pa.Table:
    """Each cell against each single retriever over short and over long texts, by the decisive measure under the ideal
    `all`. No rows where the numbers of words are not known."""

    def groups() -> Iterator[dict[str, Any]]:
        for view, sums in lengths.items():
            assert evaluation.decisive is not None
            aspect = Aspect(view, evaluation.decisive, IDEALS[0])
            for band in np.flatnonzero(sums.queries).tolist():
                described = {**_described(aspect), "fewest": FEWEST_WORDS[band], "most": most_words(band)}
                compare, mean = partial(sums.compare, band), partial(sums.mean, band)
                yield from _beside_retrievers(evaluation, described, compare, mean)

    return table_of_groups(groups(), TEXT_SIZES_SCHEMA)


def _beside_retrievers(
    evaluation: EvaluationPlan,
    described: dict[str, Any],
    compare: Callable[[Ints, int], ManyPaired],
    mean: Callable[[int | Ints], Any],
) -> Iterator[dict[str, Any]]:
    """A row for each cell and each single retriever, over the texts that `compare` and `mean` look at."""
    cells = evaluation.grid.column_of
    columns = np.array(list(cells.values()))
    for retriever in evaluation.layout.retrievers:
        single = evaluation.columns[Cell(SINGLE, retriever)]
        yield {
            **described,
            **_tested(compare(columns, single)),
            "normalization": [cell.normalization for cell in cells],
            "fusion": [cell.fusion for cell in cells],
            "retriever": retriever,
            "value": mean(columns),
            "retriever_value": mean(single),
        }


def _aspects_of_all(evaluation: EvaluationPlan) -> list[Aspect]:
    measures = text_measures(evaluation.measures)
    return [Aspect(view, measure, IDEALS[0]) for view, measure in product(evaluation.views, measures)]


def _compared(
    sums: PairedSums, evaluation: EvaluationPlan, aspect: Aspect, chosen: Sequence[tuple[Cell, Cell]]
) -> dict[str, Any]:
    """A row for every two cells."""
    i, j = (np.array([evaluation.columns[cells[n]] for cells in chosen], np.int64) for n in (0, 1))
    return {
        **_described(aspect),
        **_tested(sums.compare_many(aspect, i, j)),
        "normalization": [cell.normalization for cell, _ in chosen],
        "fusion": [cell.fusion for cell, _ in chosen],
        "against_normalization": [other.normalization for _, other in chosen],
        "against_fusion": [other.fusion for _, other in chosen],
        "p_randomization": sums.randomization(aspect, i, j),
    }


def _described(aspect: Aspect) -> dict[str, Any]:
    measure = aspect.measure
    return {"label_group": aspect.view, "metric": measure.metric, "k": measure.k, "ideal": aspect.ideal}


def _tested(test: ManyPaired) -> dict[str, Any]:
    return {**test._asdict(), "queries": test.pairs}
