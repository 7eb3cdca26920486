"""The report as one HTML page that needs no network: what Python writes, and the data and script for the rest."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from fusion.cells import SINGLE, Cell
from fusion.errors import visible
from fusion.metrics import Aspect
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.document import document
from jobs.reporting.formats import TEST_NAMES, TESTS, cell_name, objective_name, shown_cell, verdict
from jobs.reporting.model import Agreement, Band, Comparison, Gain, PaperFigures, Ranking, Row, Share, Value
from jobs.reporting.recommend import corrected_band_p
from jobs.reporting.renderers import asset, page_html
from jobs.reporting.tables import distinct_rows, out_of_order, warnings
from jobs.reporting.tuned import GroupStrategies

LARGEST = 3_000_000
"""Bytes that a page may have. Beyond them it leaves out details, and says so."""
LEVELS = 6
"""Left out, one after the other: nothing; the comparison of every two cells; the folds; the frequency bands; the tests
of each figure against the best; the examples."""
_SCRIPTS = (
    "formats.js",
    "data.js",
    "marks.js",
    "tables.js",
    "charts.js",
    "curve.js",
    "compare.js",
    "view.js",
    "page.js",
)
"""In the order they need each other; the last one starts the page."""
PLACE = "<data>"
"""Where the data go: no text of a page has such a mark."""
_DIGITS = 6
"""Significant digits of the figures."""


class _Rows:
    """The rows of a page: each distinct result once. Others refer to them by their numbers."""

    def __init__(self, dataset: DatasetReport) -> None:
        self.rows = distinct_rows(dataset)
        self._number = {row.cell: i for i, row in enumerate(self.rows)}

    def of(self, cell: Cell) -> int:
        return self._number[shown_cell(cell)]


def page(report: Report, beside: Sequence[tuple[str, str]] = ()) -> str:
    """The page: data, style and script inside. Pages next to it, by name, are linked at the top."""
    script = "\n".join(asset(name) for name in _SCRIPTS)
    names = report.title, report.heading, report.version
    for left_out in range(LEVELS):
        if left_out in (0, LEVELS - 1):
            sections = document(report, examples=left_out == 0)
            around = page_html(*names, sections, beside=beside, script=script, data=PLACE)
        html = around.replace(PLACE, _json(_report(report, left_out)), 1)
        if len(html.encode()) < LARGEST:
            break
    return html


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(_visible(data), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _visible(data: Any) -> Any:
    """The same with all its names as a reader sees them."""
    if isinstance(data, str):
        return visible(data, lines=True)
    if isinstance(data, dict):
        return {_visible(key): _visible(value) for key, value in data.items()}
    return [_visible(item) for item in data] if isinstance(data, list | tuple) else data


def _number(value: float | None, digits: int = _DIGITS) -> float | None:
    """Null for what is not a number: JSON has no other word for it."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


def _report(report: Report, left_out: int) -> dict[str, Any]:
    return {
        "title": report.title,
        "version": report.version,
        "test": report.test,
        "tests": TESTS,
        "test_names": TEST_NAMES,
        "alpha": report.alpha,
        "left_out": left_out,
        "datasets": [_dataset(dataset, left_out) for dataset in report.datasets],
    }


def _dataset(dataset: DatasetReport, left_out: int) -> dict[str, Any]:
    """What refers to a cell has the number of its row; what refers to an aspect has its number in `aspects`."""
    rows = _Rows(dataset)
    fixed = [row.cell for row in dataset.rows if not row.single and not row.cell.is_strategy]
    folds = dataset.folds if left_out < 2 else ()
    bands = dataset.bands if left_out < 3 else {}
    return {
        "name": dataset.name,
        "test": dataset.test,
        "folds": folds,
        "warnings": warnings(dataset),
        "queries": dataset.texts,
        "aspects": dataset.aspects,
        "normalizations": list(dict.fromkeys(cell.normalization for cell in fixed)),
        "fusions": list(dict.fromkeys(cell.fusion for cell in fixed)),
        "rows": [_row(row, dataset, folds, left_out < 4) for row in rows.rows],
        "recommended": {
            standing.aspect.label_group: rows.of(standing.cell)
            for standing in (dataset.recommendation.standings if dataset.recommendation else ())
        },
        "out_of_order": out_of_order(dataset, dataset.aspects),
        "gains": [_gain(gain, dataset, rows) for gain in dataset.gains],
        "bands": {group: _bands(of_group, rows) for group, of_group in bands.items()},
        "pairs": [] if left_out else [_pairs(aspect, dataset, rows) for aspect in dataset.pairs],
        "rankings": [_ranking(ranking, rows) for ranking in dataset.rankings],
        "agreement": [_agreement(agreement, dataset) for agreement in dataset.agreement],
        "paper": dataset.paper and _paper(dataset.paper, dataset, rows),
        "curves": [_curves(group) for group in dataset.strategies if group.curve],
    }


def _row(row: Row, dataset: DatasetReport, folds: tuple[int, ...], tests: bool) -> dict[str, Any]:
    return {
        "normalization": row.cell.normalization,
        "fusion": row.cell.fusion,
        "name": cell_name(row.cell),
        "single": row.single,
        "values": [_value(row.values.get(aspect), folds, tests) for aspect in dataset.aspects],
    }


def _value(value: Value | None, folds: tuple[int, ...], tests: bool) -> list[Any] | None:
    if value is None:
        return None
    return [
        _number(value.mean),
        _number(value.std),
        [_number(value.folds.get(fold)) for fold in folds],
        int(value.best),
        int(value.bold),
        _comparison(value.against_best) if value.against_best and tests else None,
    ]


def _comparison(comparison: Comparison) -> list[float | None]:
    moved = (comparison.difference, comparison.low, comparison.high, comparison.effect)
    tests = (comparison.p_folds, comparison.p_queries, comparison.p_randomization)
    return [*(_number(figure, 4) for figure in moved), *(_number(p, 2) for p in tests)]


def _gain(gain: Gain, dataset: DatasetReport, rows: _Rows) -> dict[str, Any]:
    """The figures themselves are in the rows."""
    return {
        "aspect": dataset.aspects.index(gain.aspect),
        "better_single": rows.of(Cell(SINGLE, gain.better_single)),
        "best": rows.of(gain.best),
        "comparison": _comparison(gain.comparison),
        "told": gain.verdict.significant,
        "verdict": verdict(gain.verdict),
    }


def _bands(bands: Sequence[Band], rows: _Rows) -> list[dict[str, Any]]:
    """Shares with their intervals by row and k; for the deepest k the texts of which a row finds more and fewer labels
    than a retriever, with the corrected p."""
    deepest = max(next(iter(bands[0].found.values()))) if bands else 0
    keys = dict.fromkeys(key for band in bands for key in band.tests)
    p = {key: corrected_band_p(bands, *key, deepest) for key in keys}
    of_bands = []
    for i, band in enumerate(bands):
        shares = {rows.of(cell): of_k for cell, of_k in band.found.items()}
        tested = {(rows.of(cell), rows.of(Cell(SINGLE, name))): (cell, name) for cell, name in band.tests}
        of_bands.append(
            {
                **{name: getattr(band, name) for name in ("rarest", "commonest", "labels", "pairs")},
                "found": {row: {k: _share(share) for k, share in of_k.items()} for row, of_k in shares.items()},
                "tests": [
                    [*numbers, *band.tests[key][deepest][:2], _number(p[key][i], 2)] for numbers, key in tested.items()
                ],
            }
        )
    return of_bands


def _share(share: Share) -> list[float | None]:
    return [_number(end) for end in (share.value, share.low, share.high)]


def _pairs(aspect: Aspect, dataset: DatasetReport, rows: _Rows) -> dict[str, Any]:
    pairs = dataset.pairs[aspect].items()
    return {
        "aspect": dataset.aspects.index(aspect),
        "list": [[rows.of(one), rows.of(other), *_comparison(compared)] for (one, other), compared in pairs],
    }


def _ranking(ranking: Ranking, rows: _Rows) -> dict[str, Any]:
    return {
        "label_group": ranking.label_group,
        "over": ranking.over,
        "cells": [[rows.of(ranked.cell), _number(ranked.rank, 4)] for ranked in ranking.cells],
        "ties": [[rows.of(cell) for cell in tie] for tie in ranking.ties],
    }


def _agreement(agreement: Agreement, dataset: DatasetReport) -> dict[str, Any]:
    return {
        "label_group": agreement.label_group,
        "candidates": {name: _number(length) for name, length in agreement.candidates.items()},
        "overlap": [[*pair, _number(share)] for pair, share in agreement.overlap.items()],
        "found": {name: _number(share) for name, share in agreement.found.items()},
        "alone": {name: _number(share) for name, share in agreement.alone.items()},
        "union": _number(agreement.union),
        "ceiling": [_number(agreement.ceiling.get(aspect)) for aspect in dataset.aspects],
    }


def _curves(group: GroupStrategies) -> dict[str, Any]:
    return {
        "group": group.label_group,
        "objective": objective_name(group.objective),
        "lines": [
            [str(cell), [[point.texts, *(_number(gain, 4) for gain in point[1:])] for point in points]]
            for cell, points in group.curve.items()
        ],
    }


def _paper(paper: PaperFigures, dataset: DatasetReport, rows: _Rows) -> dict[str, Any]:
    """Under the first of the cells that share a result stand the paper's figures of that cell."""
    first = {rows.of(row.cell): row.cell for row in reversed(dataset.rows)}

    def figures(cell: Cell) -> list[list[float | None] | None]:
        pairs = [paper.values.get((cell, aspect)) for aspect in dataset.aspects]
        return [pair and [_number(figure) for figure in pair] for pair in pairs]

    return {
        "table": paper.table,
        "rows": [figures(first[i]) for i in range(len(rows.rows))],
        "rank_correlation": [_number(paper.rank_correlation.get(aspect)) for aspect in dataset.aspects],
        "compared": paper.compared,
        "left_out": paper.left_out,
    }
