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
from jobs.reporting.data import Aspect, Dataset, Report, Row, Value
from jobs.reporting.formats import TESTS, aspect_name, cell_name, count, cutoff, figure, metric_name, shown_cell

WIDEST = 12
"""Aspects that fit beside each other on a page."""
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


def decisive(aspects: Iterable[Aspect]) -> Aspect:
    """The aspect that ranks the cells where one has to do: the deepest nDCG, by the paper's protocol."""
    return max(aspects, key=lambda aspect: (aspect.ideal == ALL, *decisiveness(aspect.measure)))


def aspects_by_group(dataset: Dataset) -> dict[str, list[Aspect]]:
    """The aspects of the paper's protocol: tail, head, other groups, all; the cut-offs of a metric side by side."""
    aspects = [aspect for aspect in dataset.aspects if aspect.ideal == ALL]
    metrics = list(dict.fromkeys(aspect.metric for aspect in aspects))
    aspects.sort(key=lambda aspect: (metrics.index(aspect.metric), aspect.k))
    groups = dict.fromkeys(aspect.label_group for aspect in dataset.aspects if aspect in aspects)
    return {
        group: [aspect for aspect in aspects if aspect.label_group == group]
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


def out_of_order(dataset: Dataset, aspects: Collection[Aspect]) -> str:
    """Explains a bold figure below a plain one, by the widest such case; nothing where there is none."""
    cases = []
    for aspect in aspects:
        fused = [row for row in dataset.rows if not row.single and aspect in row.values]
        if not any(row.values[aspect].bold for row in fused):
            continue
        bold = min((row for row in fused if row.values[aspect].bold), key=lambda row: row.values[aspect].mean)
        plain = max(fused, key=lambda row: (not row.values[aspect].bold, row.values[aspect].mean))
        low, high = bold.values[aspect], plain.values[aspect]
        if not high.bold and figure(high) != figure(low) and high.mean > low.mean:
            cases.append((high.mean - low.mean, aspect, bold, plain))
    if not cases:
        return ""
    _, aspect, bold, plain = max(cases, key=lambda case: case[0])
    against = {"folds": "how much it varies from fold to fold", "queries": "how much it varies from text to text"}
    return (
        f"{aspect_name(aspect)}: {figure(bold.values[aspect])} of {cell_name(bold.cell)} is bold and "
        f"{figure(plain.values[aspect])} of {cell_name(plain.cell)} is not. The test weighs a cell's distance from the "
        f"best against {against.get(dataset.test, against['queries'])}: a small but steady distance counts as a "
        "difference, a larger but unsteady one does not."
    )


def distinct_rows(dataset: Dataset) -> list[Row]:
    """Each distinct result once, the best of the most important aspect first: a fusion that reads only ranks gives the
    same under every normalisation."""
    shown: dict[Cell, Row] = {}
    for row in dataset.rows:
        shown.setdefault(shown_cell(row.cell), Row(shown_cell(row.cell), row.values))
    aspects = [aspect for aspect in dataset.aspects if aspect.label_group == ALL] or list(dataset.aspects)
    aspect = decisive(aspects)
    means = {cell: row.values[aspect].mean if aspect in row.values else -1.0 for cell, row in shown.items()}
    return sorted(shown.values(), key=lambda row: -means[row.cell])


def grid_tables(report: Report, dataset: Dataset, rows: Sequence[Row] | None = None) -> Iterator[Table]:
    """The paper's table: single retrievers and cells, with their figures under their label groups. Chosen rows stand
    in their own order, all rows by their normalisation."""
    blocks = [list(rows)] if rows is not None else []
    if rows is None:
        blocks = [list(block) for _, block in groupby(dataset.rows, key=lambda row: row.cell.normalization)]
    pages: list[dict[str, list[Aspect]]] = []
    for group, aspects in aspects_by_group(dataset).items():
        if not pages or group == ALL or sum(map(len, pages[-1].values())) + len(aspects) > WIDEST:
            pages.append({})
        pages[-1][group] = aspects
    for page in pages:
        aspects = [aspect for of_group in page.values() for aspect in of_group]
        headings = [(f"{aspect.label_group} labels", metric_name(aspect.metric), cutoff(aspect)) for aspect in aspects]
        yield Table(
            "-".join(["grid", *page]),
            " ".join(filter(None, [legend(report, dataset, page), out_of_order(dataset, aspects)])),
            [("", "", "norm."), ("", "", "fusion"), *headings],
            "ll" + "r" * len(aspects),
            [
                [[*map(Entry, row.cell), *(printed(row.values.get(aspect)) for aspect in aspects)] for row in block]
                for block in blocks
            ],
            warnings(dataset),
        )
