"""Strategies beside the made-up results of tests/reports.py: rows of the tables that `tune` writes, and figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from fusion.cells import Cell
from fusion.metrics import Aspect
from fusion.models.strategies import CELL, LAMBDAMART, LOGISTIC, WEIGHTS
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.judge import compared_aspects
from jobs.reporting.model import Band, Comparison, Row, Value
from jobs.reporting.tuned import OVERALL, read_strategies
from tests.reports import with_parts

GAIN = {CELL: 0.0, WEIGHTS: 0.001, LOGISTIC: 0.008, LAMBDAMART: 0.012}
"""What each strategy has above zmuv+combmnz, as a share of 1."""
STRATEGIES = tuple(GAIN)
BASE = Cell("zmuv", "combmnz")
CURVE_TEXTS = (50, 100, 200, 500, 1000, 1545)
OPTIMISM = 0.003


def with_strategies(report: Report) -> Report:
    """The same report, as it is when strategies were evaluated, too."""
    return replace(report, datasets=tuple(map(_dataset, report.datasets)))


def choice_rows(folds: tuple[int, ...], groups: list[str], base: dict[str, float]) -> list[dict[str, Any]]:
    """The table `choices`; `base`: the objective of the chosen cell by label group."""
    names = {
        CELL: "zmuv+combmnz",
        WEIGHTS: "zmuv+wsum(bm25=0.35,dense=0.65)",
        LOGISTIC: "34 features",
        LAMBDAMART: "100 trees",
    }
    rows = []
    for group in groups:
        best = {"best_test_choice": "max+combsum", "best_test_value": base[group] + OPTIMISM}
        for cell, fold in product(STRATEGIES, (*folds, OVERALL)):
            choice = "max+combsum" if (cell, fold) == (CELL, 1) else names[cell]
            rows.append(
                {
                    "fold": fold,
                    "label_group": group,
                    "strategy": str(cell),
                    "choice": choice,
                    "objective": "ndcg@10",
                    "validation_value": base[group] + GAIN[cell] + 0.004,
                    "validation_texts": CURVE_TEXTS[-1],
                    "test_value": None if fold == OVERALL else base[group] + GAIN[cell],
                    "deployed": (cell, fold) == (LAMBDAMART, OVERALL),
                    **best,
                }
            )
    return rows


def curve_rows(folds: tuple[int, ...], groups: list[str], base: dict[str, float]) -> list[dict[str, Any]]:
    """The table `learning_curve`: with few texts learned strategies are below the chosen cell."""
    rows = []
    for group in groups:
        for cell, texts, fold in (
            (cell, texts, fold) for cell in STRATEGIES for texts in CURVE_TEXTS for fold in folds
        ):
            steep = {CELL: 0.2, WEIGHTS: 0.4, LOGISTIC: 1.2, LAMBDAMART: 2.5}[cell]
            gain = GAIN[cell] - steep * (1 / texts - 1 / CURVE_TEXTS[-1]) + 0.001 * (fold - 2)
            value = {"value": base[group] + gain, "baseline": base[group]}
            # Folds do not have the same number of validation texts.
            seen = texts + (fold - 2 if texts == CURVE_TEXTS[-1] else 0)
            rows.append({"label_group": group, "strategy": str(cell), "texts": seen, "fold": fold, **value})
    return rows


def _dataset(dataset: DatasetReport) -> DatasetReport:
    of_base = next(row for row in dataset.rows if row.cell == BASE).values
    rows = (*dataset.rows, *(Row(cell, {c: _moved(v, GAIN[cell]) for c, v in of_base.items()}) for cell in STRATEGIES))
    values = {aspect: {row.cell: row.values[aspect] for row in rows} for aspect in dataset.aspects}
    pairs = {
        aspect: {**dataset.pairs.get(aspect, {}), **_pairs(aspect, rows)}
        for aspect in compared_aspects(dataset.aspects)
    }
    groups = list(dict.fromkeys(aspect.label_group for aspect in dataset.aspects))
    base = {group: values[Aspect(group, "ndcg", 10)][BASE].mean for group in groups}
    choices, curve = (make(dataset.folds, groups, base) for make in (choice_rows, curve_rows))
    return with_parts(
        dataset,
        values=values,
        rows=rows,
        pairs=pairs if dataset.pairs else {},
        bands={group: tuple(map(_band, bands)) for group, bands in dataset.bands.items()},
        strategies=read_strategies(choices, curve, values, pairs, dataset.test, 0.05),
    )


def _moved(value: Value, gain: float) -> Value:
    return Value(
        value.mean + gain, value.std, {f: v + gain for f, v in value.folds.items()}, False, False, value.against_best
    )


def _pairs(aspect: Aspect, rows: tuple[Row, ...]) -> dict[tuple[Cell, Cell], Comparison]:
    """Strategies against each other and the retrievers, the retriever first, as the table may have it."""
    compared = [row for row in rows if row.single or row.cell in STRATEGIES]
    found = {}
    for i, one in enumerate(compared):
        for other in compared[i + 1 :]:
            difference = one.values[aspect].mean - other.values[aspect].mean
            p = 1.0 if abs(difference) < 0.002 else 1e-5
            ends = difference - 0.002, difference + 0.002
            found[one.cell, other.cell] = Comparison(difference, *ends, 3 * difference, p, p, p, 9_000)
    return found


def _band(band: Band) -> Band:
    found = {**band.found, **dict.fromkeys(STRATEGIES, band.found[BASE])}
    tests = {(cell, name): tested for cell in STRATEGIES for (of, name), tested in band.tests.items() if of == BASE}
    return replace(band, found=found, tests={**band.tests, **tests})
