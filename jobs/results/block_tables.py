"""The sums of sign blocks, by which a later result can be compared with this one over the same texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import Any

import pyarrow as pa

from fusion.grid import Cell
from fusion.metrics import text_measures
from fusion.statistics.paired import Aspect, PairedSums
from fusion.statistics.tally import IDEALS
from jobs.results.schemas import BLOCK_SUMS_SCHEMA, BLOCK_TEXTS_SCHEMA, table_of
from udfs.evaluation_plan import EvaluationPlan


def block_sums(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """One row per measure of the paper's protocol and distinct column, with all cells that share the column."""
    cells: dict[int, list[Cell]] = defaultdict(list)
    for cell, column in evaluation.columns.items():
        cells[column].append(cell)

    def rows() -> Iterator[dict[str, Any]]:
        for view, measure in product(evaluation.views, text_measures(evaluation.measures)):
            by_column = sums.block_sums(Aspect(view, measure, IDEALS[0])).T
            for column, sharing in cells.items():
                yield {
                    "label_group": view,
                    "metric": measure.metric,
                    "k": measure.k,
                    "cells": [str(cell) for cell in sharing],
                    "sums": by_column[column],
                }

    return table_of(rows(), BLOCK_SUMS_SCHEMA)


def block_texts(sums: PairedSums, evaluation: EvaluationPlan) -> pa.Table:
    """One row per label group: how many texts each sign block has, and their fingerprints added up."""

    def rows() -> Iterator[dict[str, Any]]:
        # Every measure of texts has the same texts.
        for view, measure in product(evaluation.views, text_measures(evaluation.measures)[:1]):
            texts, prints = sums.texts_of_blocks(Aspect(view, measure, IDEALS[0]))
            yield {"label_group": view, "texts": texts, "fingerprints": prints}

    return table_of(rows(), BLOCK_TEXTS_SCHEMA)
