"""The tables of a report: what stands in their lines and columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from itertools import count as numbers
from typing import NamedTuple

from fusion.grid import Cell
from fusion.label_groups import ALL, HEAD, TAIL
from fusion.metrics import decisiveness
from jobs.reporting.data import Column, Dataset, Report, Row, Value
from jobs.reporting.formats import TESTS, cell_name, column_name, count, cutoff, figure, metric_name, shown_cell

WIDEST = 12
"""Columns of figures that fit on a page."""
BEST = "\N{DAGGER}"


class Entry(NamedTuple):
    """What stands in a line and column."""

    text: str
    bold: bool = False
    best: bool = False


class Table(NamedTuple):
    """A table to print."""

    name: str
    caption: str
    header: list[tuple[str, ...]]
    """Of each column, from the widest heading it stands under to its own."""
    align: str
    """Of each column, l or r."""
    blocks: list[list[list[Entry]]]
    """Lines, in blocks that are set apart."""
    warnings: Collection[str] = ()


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A name for files of each name: distinct, and without the underscore that joins the parts of a file's name."""
    files: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[\W_]+", "-", name).strip("-").lower()
        numbered = (f"{plain}-{n}".strip("-") for n in numbers(2))
        files[name] = next(file for file in chain([plain], numbered) if file and file not in files.values())
    return files


def decisive(columns: Iterable[Column]) -> Column:
    """The column that ranks the cells where one has to do: the deepest nDCG, by the paper's protocol."""
    return max(columns, key=lambda column: (column.ideal == ALL, *decisiveness(column.measure)))


def columns_by_group(dataset: Dataset) -> dict[str, list[Column]]:
    """The columns of the paper's protocol: tail, head, other groups, all; the cut-offs of a metric side by side."""
    columns = [column for column in dataset.columns if column.ideal == ALL]
    metrics = list(dict.fromkeys(column.metric for column in columns))
    columns.sort(key=lambda column: (metrics.index(column.metric), column.k))
    groups = dict.fromkeys(column.label_group for column in dataset.columns if column in columns)
    return {
        group: [column for column in columns if column.label_group == group]
        for group in sorted(groups, key=group_order)
    }


def group_order(group: str) -> int:
    """Tail, head, other groups, all labels."""
    return {TAIL: 0, HEAD: 1, ALL: 3}.get(group, 2)


def printed(value: Value | None) -> Entry:
    return Entry(figure(value), value is not None and value.bold, value is not None and value.best)


def warnings(dataset: Dataset) -> list[str]:
    """What a reader must know before trusting the figures."""
    warnings = []
    missing, there = dataset.missing_folds, len(dataset.folds)
    if missing:
        which = ("folds {} are" if len(missing) > 1 else "fold {} is").format(", ".join(map(str, missing)))
        warnings.append(f"{which} missing: figures are over {there} of {there + len(missing)} folds")
    if there == 1:
        tests = "the tests over texts decide" if tested(dataset) else "no test"
        warnings.append(f"one fold: no standard deviation, {tests}")
    return warnings


def legend(report: Report, dataset: Dataset, groups: Collection[str]) -> str:
    """How the table of a grid is to be read."""
    folds = f"Mean(standard deviation) over {len(dataset.folds)} folds" if len(dataset.folds) > 1 else "One fold"
    texts = ", ".join(f"{count(dataset.queries[group], 'text')} ({group} labels)" for group in groups)
    return f"{dataset.name}. {folds}, in percent; {texts}. {bold_face(report, dataset)}"


def bold_face(report: Report, dataset: Dataset) -> str:
    """What the bold face stands for."""
    if not tested(dataset):
        return f"Bold and {BEST}: the best fusion of a column; nothing is tested."
    test = f"{TESTS[dataset.test]}; alpha = {report.alpha:g}"
    if report.test != dataset.test:
        test += "; one fold leaves nothing for a test over folds"
    return f"Bold: the best fusion of a column ({BEST}) and those not told apart from it by the deciding test ({test})."


def tested(dataset: Dataset) -> bool:
    values = (value for row in dataset.rows for value in row.values.values())
    return any(value.against_best and value.against_best.p(dataset.test) is not None for value in values)


def out_of_order(dataset: Dataset, columns: Collection[Column]) -> str:
    """Explains a bold figure below a plain one, by the widest such case; nothing where there is none."""
    cases = []
    for column in columns:
        fused = [row for row in dataset.rows if not row.single and column in row.values]
        if not any(row.values[column].bold for row in fused):
            continue
        bold = min((row for row in fused if row.values[column].bold), key=lambda row: row.values[column].mean)
        plain = max(fused, key=lambda row: (not row.values[column].bold, row.values[column].mean))
        low, high = bold.values[column], plain.values[column]
        if not high.bold and figure(high) != figure(low) and high.mean > low.mean:
            cases.append((high.mean - low.mean, column, bold, plain))
    if not cases:
        return ""
    _, column, bold, plain = max(cases, key=lambda case: case[0])
    against = {"folds": "how much it varies from fold to fold", "queries": "how much it varies from text to text"}
    return (
        f"{column_name(column)}: {figure(bold.values[column])} of {cell_name(bold.cell)} is bold and "
        f"{figure(plain.values[column])} of {cell_name(plain.cell)} is not. The test weighs a cell's distance from the "
        f"best against {against.get(dataset.test, against['queries'])}: a small but steady distance counts as a "
        "difference, a larger but unsteady one does not."
    )


def distinct_rows(dataset: Dataset) -> list[Row]:
    """Each distinct result once, the best of the most important column first: a fusion that reads only ranks gives the
    same under every normalisation."""
    shown: dict[Cell, Row] = {}
    for row in dataset.rows:
        shown.setdefault(shown_cell(row.cell), Row(shown_cell(row.cell), row.values))
    columns = [column for column in dataset.columns if column.label_group == ALL] or list(dataset.columns)
    column = decisive(columns)
    means = {cell: row.values[column].mean if column in row.values else -1.0 for cell, row in shown.items()}
    return sorted(shown.values(), key=lambda row: -means[row.cell])


def grid_tables(report: Report, dataset: Dataset, rows: Sequence[Row] | None = None) -> Iterator[Table]:
    """The paper's table: single retrievers and cells, with their figures under their label groups. Chosen rows stand
    in their own order, all rows by their normalisation."""
    blocks = [list(rows)] if rows is not None else []
    if rows is None:
        blocks = [list(block) for _, block in groupby(dataset.rows, key=lambda row: row.cell.normalization)]
    pages: list[dict[str, list[Column]]] = []
    for group, columns in columns_by_group(dataset).items():
        if not pages or group == ALL or sum(map(len, pages[-1].values())) + len(columns) > WIDEST:
            pages.append({})
        pages[-1][group] = columns
    for page in pages:
        columns = [column for of_group in page.values() for column in of_group]
        headings = [(f"{column.label_group} labels", metric_name(column.metric), cutoff(column)) for column in columns]
        yield Table(
            "-".join(["grid", *page]),
            " ".join(filter(None, [legend(report, dataset, page), out_of_order(dataset, columns)])),
            [("", "", "norm."), ("", "", "fusion"), *headings],
            "ll" + "r" * len(columns),
            [
                [[*map(Entry, row.cell), *(printed(row.values.get(column)) for column in columns)] for row in block]
                for block in blocks
            ],
            warnings(dataset),
        )
