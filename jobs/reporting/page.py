"""The report as one HTML page that needs no network."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from fusion.grid import Cell
from jobs.reporting.data import Agreement, Band, Comparison, Dataset, Gain, PaperFigures, Report, Value
from jobs.reporting.formats import TESTS, input_count_text, verdict

_SCRIPTS = ("data.js", "marks.js", "tables.js", "figures.js", "page.js")
"""In the order they need each other; the last one starts the page."""
_DIGITS = 6
"""Significant digits of the many figures that only a tooltip tells."""


def page(report: Report, beside: Sequence[tuple[str, str]] = ()) -> str:
    """The page: data, style and script inside. Pages beside it, by name, are linked at the top."""
    links = "".join(f' <a href="{escape(file)}">{escape(name)}</a>' for name, file in beside)
    return Template(_asset("page.html")).substitute(
        title=escape(report.title),
        style=_asset("style.css"),
        script="\n".join(_asset(name) for name in _SCRIPTS),
        data=_json(_report(report)),
        beside=links,
    )


def _asset(name: str) -> str:
    return (files("jobs.reporting") / "assets" / name).read_text(encoding="utf-8")


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _number(value: float | None) -> float | None:
    """Null for what is not a number: JSON has no other word for it."""
    return None if value is None or not math.isfinite(value) else float(value)


def _short(value: float | None) -> float | None:
    number = _number(value)
    return number and float(f"{number:.{_DIGITS}g}")


def _report(report: Report) -> dict[str, Any]:
    return {
        "title": report.title,
        "version": report.version,
        "test": report.test,
        "tests": TESTS,
        "alpha": report.alpha,
        "datasets": [_dataset(dataset) for dataset in report.datasets],
    }


def _dataset(dataset: Dataset) -> dict[str, Any]:
    """Cells are numbers of rows and columns are numbers of columns, wherever something refers to them."""
    row_of = {row.cell: i for i, row in enumerate(dataset.rows)}
    return {
        "name": dataset.name,
        "test": dataset.test,
        "folds": dataset.folds,
        "missing": dataset.missing_folds,
        "queries": dataset.queries,
        "columns": dataset.columns,
        "rows": [
            {
                "normalization": row.cell.normalization,
                "fusion": row.cell.fusion,
                "single": row.single,
                "values": [_value(row.values.get(column), dataset.folds) for column in dataset.columns],
            }
            for row in dataset.rows
        ],
        "gains": [_gain(gain, dataset, row_of) for gain in dataset.gains],
        "bands": {group: [_band(band, row_of) for band in bands] for group, bands in dataset.bands.items()},
        "agreement": [_agreement(agreement, dataset) for agreement in dataset.agreement],
        "paper": dataset.paper and _paper(dataset.paper, dataset),
        "input_counts": {input_count_text(key): count for key, count in dataset.input_counts.items()},
        "sources": dataset.sources,
        "evaluated": dataset.evaluated,
        "version": dataset.version,
        "config": dataset.config,
    }


def _value(value: Value | None, folds: tuple[int, ...]) -> list[Any] | None:
    if value is None:
        return None
    return [
        _number(value.mean),
        _number(value.std),
        [_short(value.folds.get(fold)) for fold in folds],
        int(value.best),
        int(value.bold),
        value.against_best and [_short(figure) for figure in _comparison(value.against_best)],
    ]


def _comparison(comparison: Comparison) -> list[float | None]:
    interval = (comparison.low, comparison.high)
    tests = (comparison.p_folds, comparison.p_queries, comparison.p_randomization)
    return [_number(figure) for figure in (comparison.difference, *interval, comparison.effect, *tests)]


def _gain(gain: Gain, dataset: Dataset, row_of: dict[Cell, int]) -> dict[str, Any]:
    """The figures themselves stand in the rows."""
    return {
        "column": dataset.columns.index(gain.column),
        "better_single": gain.better_single,
        "best": row_of[gain.best],
        "comparison": _comparison(gain.comparison),
        "outcome": gain.verdict.outcome,
        "verdict": verdict(gain.verdict),
    }


def _band(band: Band, row_of: dict[Cell, int]) -> dict[str, Any]:
    return {
        "number": band.number,
        "rarest": band.rarest,
        "commonest": band.commonest,
        "labels": band.labels,
        "pairs": band.pairs,
        "found": {
            row_of[cell]: {k: _short(share) for k, share in shares.items()} for cell, shares in band.found.items()
        },
    }


def _agreement(agreement: Agreement, dataset: Dataset) -> dict[str, Any]:
    return {
        "label_group": agreement.label_group,
        "candidates": {name: _number(length) for name, length in agreement.candidates.items()},
        "overlap": [[*pair, _number(share)] for pair, share in agreement.overlap.items()],
        "found": {name: _number(share) for name, share in agreement.found.items()},
        "alone": {name: _number(share) for name, share in agreement.alone.items()},
        "union": _number(agreement.union),
        "ceiling": [_number(agreement.ceiling.get(column)) for column in dataset.columns],
    }


def _paper(paper: PaperFigures, dataset: Dataset) -> dict[str, Any]:
    def figures(cell: Cell) -> list[list[float | None] | None]:
        pairs = [paper.values.get((cell, column)) for column in dataset.columns]
        return [pair and [_number(figure) for figure in pair] for pair in pairs]

    return {
        "table": paper.table,
        "rows": [figures(row.cell) for row in dataset.rows],
        "rank_correlation": [_number(paper.rank_correlation.get(column)) for column in dataset.columns],
        "compared": paper.compared,
        "left_out": paper.left_out,
    }
