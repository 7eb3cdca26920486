"""The tables that compare cells text by text: with the best, each with each, and with one retriever less."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.metrics import Aspect, text_metrics
from fusion.names import print_subset
from fusion.statistics.paired import FEWEST_LABELS, PairedSums
from fusion.statistics.significance import ManyPaired, best_of
from fusion.statistics.watchers import FEWEST_WORDS, LengthSums, most_words
from fusion.types import Ints
from jobs.evaluation.result import Folds, figures_of
from jobs.evaluation.schemas import (
    ADDITIONS_SCHEMA,
    BLOCK_SUMS_SCHEMA,
    BLOCK_TEXTS_SCHEMA,
    COMPARISONS_SCHEMA,
    PAIRS_SCHEMA,
    TEXT_SIZES_SCHEMA,
    table_of,
    table_of_groups,
)
from udfs.plan import EvaluationPlan


def comparisons(sums: PairedSums, metrics: pa.Table, evaluation: EvaluationPlan) -> pa.Table:
    """Every cell and single retriever against the best cell of each aspect, and against the retrievers."""
    tested = {aspect: cells for aspect, cells in figures_of(metrics).items() if aspect in sums.same_as}

    def groups() -> Iterator[dict[str, Any]]:
        for aspect, cells in tested.items():
            fused = {cell: _mean(folds) for cell, folds in cells.items() if cell.normalization != SINGLE}
            references = [best_of(fused), *(cell for cell in cells if cell.normalization == SINGLE)]
            cell_pairs = [(cell, other) for other, cell in product(references, cells) if cell != other]
            yield _compared(sums, evaluation, aspect, cell_pairs)

    return table_of_groups(groups(), COMPARISONS_SCHEMA)


def _mean(folds: Folds) -> float:
    return sum(folds.values()) / len(folds)


def pairs(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """Any two distinct columns under the ideal `all`. Cells that share a column are represented by the first one."""
    cell_of: dict[int, Cell] = {}
    for cell, column in evaluation.columns.items():
        cell_of.setdefault(column, cell)
    cell_pairs = list(combinations(cell_of.values(), 2))
    groups = (_compared(sums, evaluation, aspect, cell_pairs) for aspect in _aspects_of_all(evaluation))
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
    """Each cell against each single retriever over short and over long texts, by the decisive metric under the ideal
    `all`. No rows where the numbers of words are not known."""

    def groups() -> Iterator[dict[str, Any]]:
        for view, sums in lengths.items():
            assert evaluation.decisive is not None
            aspect = Aspect(view, *evaluation.decisive)
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
    metrics = text_metrics(evaluation.metrics)
    return [Aspect(view, *metric) for view, metric in product(evaluation.views, metrics)]


def _compared(
    sums: PairedSums, evaluation: EvaluationPlan, aspect: Aspect, cell_pairs: Sequence[tuple[Cell, Cell]]
) -> dict[str, Any]:
    """A row for every two cells."""
    i, j = (np.array([evaluation.columns[cells[n]] for cells in cell_pairs], np.int64) for n in (0, 1))
    return {
        **_described(aspect),
        **_tested(sums.compare_many(aspect, i, j)),
        "normalization": [cell.normalization for cell, _ in cell_pairs],
        "fusion": [cell.fusion for cell, _ in cell_pairs],
        "against_normalization": [other.normalization for _, other in cell_pairs],
        "against_fusion": [other.fusion for _, other in cell_pairs],
        "p_randomization": sums.randomization(aspect, i, j),
    }


def _described(aspect: Aspect) -> dict[str, Any]:
    return aspect._asdict()


def _tested(test: ManyPaired) -> dict[str, Any]:
    return {**test._asdict(), "queries": test.pairs}


def block_sums(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """One row per metric of the paper's protocol and distinct column, with all cells that share the column."""
    cells: dict[int, list[Cell]] = defaultdict(list)
    for cell, column in evaluation.columns.items():
        cells[column].append(cell)

    def rows() -> Iterator[dict[str, Any]]:
        for view, metric in product(evaluation.views, text_metrics(evaluation.metrics)):
            by_column = sums.block_sums(Aspect(view, *metric)).T
            for column, sharing in cells.items():
                yield {
                    "label_group": view,
                    "metric": metric.name,
                    "k": metric.k,
                    "cells": [str(cell) for cell in sharing],
                    "sums": by_column[column],
                }

    return table_of(rows(), BLOCK_SUMS_SCHEMA)


def block_texts(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """One row per label group: how many texts each sign block has, and their fingerprints added up."""

    def rows() -> Iterator[dict[str, Any]]:
        # Every metric of texts has the same texts.
        for view, metric in product(evaluation.views, text_metrics(evaluation.metrics)[:1]):
            texts, prints = sums.texts_of_blocks(Aspect(view, *metric))
            yield {"label_group": view, "texts": texts, "fingerprints": prints}

    return table_of(rows(), BLOCK_TEXTS_SCHEMA)


class Addition(NamedTuple):
    """A cell over some retrievers, and what it is without one of them: the same cell, or the one retriever left."""

    cell: Cell
    without: Cell
    retriever: str
    others: frozenset[str]


def additions(metrics: pa.Table, evaluation: EvaluationPlan, sums: PairedSums | None) -> pa.Table:
    """One row per addition, label group and metric, under the ideal `all`; tested over texts where sums are given."""
    figures = {aspect: cells for aspect, cells in figures_of(metrics).items() if aspect.ideal == ALL}
    made = list(_found(evaluation))

    def rows() -> Iterator[dict[str, Any]]:
        for aspect, cells in figures.items():
            means = {cell: _mean(folds) for cell, folds in cells.items()}
            for addition in made:
                value, without = means[addition.cell], means[addition.without]
                yield {
                    "label_group": aspect.label_group,
                    "metric": aspect.metric,
                    "k": aspect.k,
                    "normalization": addition.cell.scaling,
                    "fusion": addition.cell.fusion,
                    "retriever": addition.retriever,
                    "others": print_subset(addition.others),
                    "value": value,
                    "others_value": without,
                    "difference": value - without,
                    **_tested_addition(addition, aspect, evaluation, sums),
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


def _tested_addition(
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
