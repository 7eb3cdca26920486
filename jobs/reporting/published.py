"""Figures that others have published for a dataset, next to ours, with what is needed to judge a comparison.

A report shows the recommended fusions, or the best ones, and every single retriever next to them.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.errors import InputError
from fusion.labels import ALL
from fusion.metrics import WHOLE, Aspect, Metric, parse_metrics
from fusion.registry import METRICS
from jobs.evaluation.result import Result
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import cell_name, metric_name, percent
from jobs.reporting.parts import Entry, Fold, Lines, Part, Table, Text
from jobs.settings.config import conf_file

if TYPE_CHECKING:
    from importlib.abc import Traversable

COLUMNS = ("dataset", "split", "label_group", "system", "year", "metric", "value", "citation", "note")
PUBLISHED = "published"
"""The split that is the published training and test part."""
COMPARABLE = (
    "Ours are of the published test part, as theirs: the figures compare as far as the version of the dataset, what is "
    "read of a text, the label set and the bounds of label groups are the same."
)
NOT_COMPARABLE = (
    "Ours are {}, theirs are of the published test part: they show what to expect, and do not compare. Training texts, "
    "label groups and frequencies differ."
)
OURS = {
    "folds": "means over folds of all texts",
    "hash": "of test texts that were drawn by hash",
    PUBLISHED: "of some texts of the published parts (prepare.limit)",
}
"""What ours are of where they do not compare, by the split."""
UNKNOWN = (
    "Theirs are of the published test part. The figures compare only if the judgements that were given for ours are of "
    "that part, and no text of it was trained on."
)


@dataclass(frozen=True)
class PublishedFigure:
    """One figure of a system; without a cut-off, a metric is that of assigned sets of labels."""

    dataset: str
    split: str
    label_group: str
    system: str
    year: int
    metric: Metric
    value: float
    """A share of 1."""
    citation: str
    note: str


@dataclass(frozen=True)
class PublishedRow:
    """A line of the table: one of our cells, or a published system with its year and where its figures are from."""

    name: str
    values: tuple[float | None, ...]
    """By the metrics of the table; None where there is no such figure."""
    year: int | None = None
    source: str = ""

    @property
    def is_ours(self) -> bool:
        return self.year is None


@dataclass(frozen=True)
class PublishedTable:
    """The figures of one label group: ours first, then others' by year."""

    label_group: str
    metrics: tuple[Metric, ...]
    rows: tuple[PublishedRow, ...]


def published_parts(dataset: DatasetReport) -> Iterator[Part]:
    """What a report says: the tables, whether they compare, and where others' figures are from."""
    tables = published_tables(dataset.name, _ours(dataset))
    if not tables:
        return
    yield Text(comparability(dataset.result))
    yield from map(_printed, tables)
    sources = dict.fromkeys(f"{row.name}: {row.source}" for table in tables for row in table.rows if not row.is_ours)
    yield Fold("Where these figures are from", [Lines(list(sources))])


def _ours(dataset: DatasetReport) -> dict[str, dict[Aspect, float]]:
    """By name, every single retriever and the recommended cells; without a recommendation, the best ones."""
    standings = dataset.recommendation.standings if dataset.recommendation else ()
    shown = {one.cell for one in standings} or {gain.best for gain in dataset.gains}
    return {
        cell_name(row.cell): {aspect: value.mean for aspect, value in row.values.items()}
        for row in dataset.rows
        if row.single or row.cell in shown
    }


def _printed(table: PublishedTable) -> Table:
    headings = [f"{metric_name(metric.name)}{f'@{metric.k}' if metric.k else ', assigned'}" for metric in table.metrics]
    lines = {
        ours: [
            [Entry(row.name), Entry("" if ours else str(row.year)), *map(Entry, map(percent, row.values))]
            for row in table.rows
            if row.is_ours is ours
        ]
        for ours in (True, False)
    }
    return Table(
        f"published-{table.label_group}",
        f"Ours and published figures, {table.label_group} labels, in percent.",
        [("system",), ("year",), *((heading,) for heading in headings)],
        "ll" + "r" * len(headings),
        [block for block in lines.values() if block],
    )


def published_tables(dataset: str, ours: Mapping[str, Mapping[Aspect, float]]) -> list[PublishedTable]:
    """By label group, all labels first; those that ours have. `ours`: the figures of some cells by their names. Others
    rank the labels of a group among themselves, so ours are those whose ideal ranking is made of the group alone."""
    by_group: dict[str, list[PublishedFigure]] = defaultdict(list)
    for figure in published_figures(dataset):
        by_group[figure.label_group].append(figure)
    tables = [_table(group, by_group[group], ours) for group in sorted(by_group, key=lambda group: group != ALL)]
    return [table for table in tables if table.label_group == ALL or any(row.is_ours for row in table.rows)]


def comparability(result: Result) -> str:
    """What a reader of the tables must know, from the split that our figures are of."""
    settings = result.config.prepare
    if not result.is_prepared:
        return UNKNOWN
    if settings.split == PUBLISHED and settings.limit is None:
        return COMPARABLE
    return NOT_COMPARABLE.format(OURS[settings.split])


def _table(group: str, figures: list[PublishedFigure], ours: Mapping[str, Mapping[Aspect, float]]) -> PublishedTable:
    metrics = tuple(sorted({figure.metric for figure in figures}, key=_place))
    rows = []
    for name, figures_of_cell in ours.items():
        mine = tuple(figures_of_cell.get(_aspect(group, metric)) for metric in metrics)
        if any(value is not None for value in mine):
            rows.append(PublishedRow(name, mine))
    systems: dict[tuple[int, str], dict[Metric, PublishedFigure]] = defaultdict(dict)
    for figure in figures:
        systems[figure.year, figure.system][figure.metric] = figure
    for (year, system), of_system in sorted(systems.items()):
        values = tuple(of_system[metric].value if metric in of_system else None for metric in metrics)
        sources = dict.fromkeys(f"{figure.citation}. {figure.note}." for figure in of_system.values())
        rows.append(PublishedRow(system, values, year, " ".join(sources)))
    return PublishedTable(group, metrics, tuple(rows))


def _aspect(group: str, metric: Metric) -> Aspect:
    by_group = group != ALL and METRICS[metric.name].ideal
    return Aspect(group, *metric, "group" if by_group else ALL)


def _place(metric: Metric) -> tuple[bool, bool, str, int]:
    """nDCG first, and what is said of assigned sets last."""
    return metric.k == WHOLE, metric.name != "ndcg", *metric


def published_figures(dataset: str) -> tuple[PublishedFigure, ...]:
    """Those in the file of conf/published that a dataset's name begins with, in any case; none without such a file."""
    name = dataset.casefold()
    for file in _files():
        stem = file.name.removesuffix(".csv")
        if name == stem or name.startswith(f"{stem}-"):
            return tuple(_read(file))
    return ()


def _files() -> list[Traversable]:
    folder: Traversable = conf_file(f"{PUBLISHED}/README.md").parent  # type: ignore[attr-defined]
    return sorted((file for file in folder.iterdir() if file.name.endswith(".csv")), key=lambda file: file.name)


def _read(file: Traversable) -> Iterator[PublishedFigure]:
    with file.open(encoding="utf-8") as stream:
        rows = csv.DictReader(stream)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise InputError(f"conf/published/{file.name}: expected the columns {', '.join(COLUMNS)}")
        for row in rows:
            where = f"conf/published/{file.name}, line {rows.line_num}"
            try:
                value, year = float(row["value"]) / 100, int(row["year"])
            except ValueError as error:
                raise InputError(f"{where}: value and year must be numbers: {error}") from None
            if not 0 <= value <= 1:
                raise InputError(f"{where}: {row['value']} is not a figure in percent")
            metric = _metric(row["metric"])
            texts = (row["dataset"], row["split"], row["label_group"], row["system"])
            yield PublishedFigure(
                *texts, year=year, metric=metric, value=value, citation=row["citation"], note=row["note"]
            )


def _metric(name: str) -> Metric:
    return parse_metrics(name)[0] if "@" in name else Metric(METRICS[name].name, WHOLE)
