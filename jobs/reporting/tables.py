"""The tables of a report: what stands in their lines and columns."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from itertools import chain, count, groupby
from typing import NamedTuple

from fusion.label_groups import ALL, HEAD, TAIL
from fusion.metrics import decisiveness
from fusion.statistics.summary import MeanStd
from jobs.reporting.data import TESTS, Column, Comparison, Dataset, Report, Value

WIDEST = 12
"""Columns of figures that fit on a page."""
METRICS = {"ndcg": "nDCG", "precision": "P"}
NOTHING = "\N{EN DASH}"
BEST = "\N{DAGGER}"
MINUS = "\N{MINUS SIGN}"


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
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[\W_]+", "-", name).strip("-").lower()
        numbered = (f"{plain}-{n}".strip("-") for n in count(2))
        found[name] = next(name for name in chain([plain], numbered) if name and name not in found.values())
    return found


def metric_name(column: Column) -> str:
    return METRICS.get(column.metric, column.metric)


def measure_name(column: Column) -> str:
    return f"{metric_name(column)}@{column.k}" + ("" if column.ideal == ALL else f" ({column.ideal})")


def decisive(columns: Iterable[Column]) -> Column:
    """The column that ranks the cells where one has to do: the deepest nDCG, by the paper's protocol."""
    return max(columns, key=lambda column: (column.ideal == ALL, *decisiveness(column.measure)))


def columns_by_group(dataset: Dataset) -> dict[str, list[Column]]:
    """The columns of the paper's protocol: tail, head, other groups, all; the cut-offs of a metric side by side."""
    columns = [column for column in dataset.columns if column.ideal == ALL]
    metrics = list(dict.fromkeys(column.metric for column in columns))
    columns.sort(key=lambda column: (metrics.index(column.metric), column.k))
    groups = dict.fromkeys(column.label_group for column in dataset.columns if column in columns)
    order = {TAIL: 0, HEAD: 1, ALL: 3}
    return {
        group: [column for column in columns if column.label_group == group]
        for group in sorted(groups, key=lambda group: order.get(group, 2))
    }


def printed(value: Value | None) -> Entry:
    """A figure in percent, as mean(std)."""
    if value is None:
        return Entry(NOTHING)
    return Entry(str(MeanStd(value.mean, math.nan if value.std is None else value.std)), value.bold, value.best)


def points(share: float) -> str:
    """A difference in points."""
    return f"{round(100 * share, 1) + 0.0:+.1f}".replace("-", MINUS)  # adding 0.0 makes 0.0 of -0.0


def gained(comparison: Comparison) -> str:
    """A difference in points, with its 95% interval."""
    if comparison.low is None or comparison.high is None:
        return points(comparison.difference)
    return f"{points(comparison.difference)} [{points(comparison.low)}, {points(comparison.high)}]"


def warnings(report: Report, dataset: Dataset) -> list[str]:
    """What a reader must know before trusting the figures."""
    found = []
    missing, there = dataset.missing_folds, len(dataset.folds)
    if missing:
        which = ("folds {} are" if len(missing) > 1 else "fold {} is").format(", ".join(map(str, missing)))
        found.append(f"{which} missing: figures are over {there} of {there + len(missing)} folds")
    if there == 1:
        found.append("one fold: no standard deviation, no test" + (" over folds" if _tested(report, dataset) else ""))
    return found


def legend(report: Report, dataset: Dataset, groups: Collection[str]) -> str:
    """How the table of a grid is to be read."""
    folds = f"Mean(standard deviation) over {len(dataset.folds)} folds" if len(dataset.folds) > 1 else "One fold"
    texts = ", ".join(f"{dataset.queries[group]:,} texts ({group} labels)" for group in groups)
    bold = f"Bold and {BEST}: the best fusion of a column; nothing is tested."
    if _tested(report, dataset):
        test = f"{TESTS[report.test]}; alpha = {report.alpha:g}"
        bold = f"Bold: the best fusion of a column ({BEST}) and those not told from it by the deciding test ({test})."
    return f"{dataset.name}. {folds}, in percent; {texts}. {bold}"


def _tested(report: Report, dataset: Dataset) -> bool:
    values = (value for row in dataset.rows for value in row.values.values())
    return any(value.against_best and value.against_best.p(report.test) is not None for value in values)


def grid_tables(report: Report, dataset: Dataset) -> Iterator[Table]:
    """The paper's table: single retrievers and cells, with their figures under their label groups."""
    pages: list[dict[str, list[Column]]] = []
    for group, columns in columns_by_group(dataset).items():
        if not pages or group == ALL or sum(map(len, pages[-1].values())) + len(columns) > WIDEST:
            pages.append({})
        pages[-1][group] = columns
    for page in pages:
        columns = [column for of_group in page.values() for column in of_group]
        headings = [(f"{column.label_group} labels", metric_name(column), f"@{column.k}") for column in columns]
        yield Table(
            "-".join(["grid", *page]),
            legend(report, dataset, page),
            [("", "", "norm."), ("", "", "fusion"), *headings],
            "ll" + "r" * len(columns),
            [
                [[*map(Entry, row.cell), *(printed(row.values.get(column)) for column in columns)] for row in rows]
                for _, rows in groupby(dataset.rows, key=lambda row: row.cell.normalization)
            ],
            warnings(report, dataset),
        )


def gain_table(report: Report, dataset: Dataset) -> Table:
    """Single retrievers and the best fusion side by side."""
    # Precision has no ideal ranking: its figures are the same under every ideal.
    shown = [gain for gain in dataset.gains if gain.column.ideal == ALL or gain.column.metric != "precision"]
    singles = list(shown[0].singles) if shown else []
    blocks = []
    for group, gains in groupby(shown, key=lambda gain: gain.column.label_group):
        lines = []
        for gain in gains:
            against = gain.comparison
            ps = [NOTHING if p is None else "<0.001" if p < 0.001 else f"{p:.3f}" for p in map(against.p, TESTS)]
            effect = NOTHING if against.effect is None else f"{against.effect:.2f}".replace("-", MINUS)
            values = [printed(value).text for value in (*map(gain.singles.get, singles), gain.best_value)]
            words = [group, measure_name(gain.column), *values, str(gain.best), gained(against), effect, *ps]
            lines.append([*map(Entry, words), Entry(gain.verdict)])
        blocks.append(lines)
    tests = "; ".join(f"{name}: {meaning}" for name, meaning in TESTS.items())
    ideal = any(gain.column.ideal != ALL for gain in shown)
    return Table(
        "gain",
        f"{dataset.name}. The best fusion of each measure beside the single retrievers, in percent. Gain: over the "
        "better of them, in points, with its 95% interval; effect: mean difference over its standard deviation between "
        f"texts. p by three tests ({tests}). Better or worse only where folds and texts both say so."
        + " (group): the ideal ranking holds only labels of the group."
        * ideal,
        [
            *(("", name) for name in ("labels", "measure", *singles, "best", "fusion", "gain", "effect")),
            *(("p", name.replace("randomization", "random.")) for name in TESTS),
            ("", "verdict"),
        ],
        "ll" + "r" * (len(singles) + 1) + "lrrrrrl",
        blocks,
        warnings(report, dataset),
    )


def tie_table(report: Report, dataset: Dataset) -> Table:
    """How many fusions each test leaves in the running, for the columns of the paper's protocol."""
    columns = [column for of_group in columns_by_group(dataset).values() for column in of_group]
    cells = [row for row in dataset.rows if not row.single]
    lines = []
    for test, meaning in TESTS.items():
        line = [Entry(meaning, bold=test == report.test)]
        for column in columns:
            against = [row.values[column].against_best for row in cells if column in row.values]
            ps = [None if comparison is None else comparison.p(test) for comparison in against]
            tested = [p for p in ps if p is not None]
            line.append(Entry(str(1 + sum(p >= report.alpha for p in tested)) if tested else NOTHING))
        lines.append(line)
    return Table(
        "ties",
        f"Fusions, of {len(cells)}, that are best or not told from the best (alpha = {report.alpha:g}); "
        "the test in bold decides the bold face.",
        [("", "test"), *((column.label_group, measure_name(column)) for column in columns)],
        "l" + "r" * len(columns),
        [lines],
    )


def agreement_table(dataset: Dataset) -> Table:
    """What the retrievers have in common, a line a label group."""
    lines: list[dict[str, str]] = []
    for group in dataset.agreement:
        shares = {f"found by {name}": share for name, share in group.found.items()}
        shares |= {f"by {name} alone": share for name, share in group.alone.items()} | {"by any": group.union}
        shares |= {f"candidates common to {' and '.join(pair)}": share for pair, share in group.overlap.items()}
        words = {name: f"{100 * share:.1f}" for name, share in shares.items()}
        words |= {f"candidates of {name}": f"{length:.1f}" for name, length in group.candidates.items()}
        lines.append({"labels": group.label_group, **words})
    header = list(dict.fromkeys(name for line in lines for name in line))
    return Table(
        "agreement",
        "Relevant labels found, and candidates that two retrievers have in common, in percent; candidates a text.",
        [(name,) for name in header],
        "l" + "r" * (len(header) - 1),
        [[[Entry(line.get(name, NOTHING)) for name in header] for line in lines]],
    )


def paper_tables(dataset: Dataset) -> Iterator[Table]:
    """The paper's figures beside ours, a table a label group."""
    paper = dataset.paper
    if paper is None:
        return
    for group, columns in columns_by_group(dataset).items():
        shown = [column for column in columns if column in paper.rank_correlation]
        if not shown:
            continue
        lines = []
        for row in dataset.rows:
            entries = []
            for column in shown:
                ours, theirs = row.values.get(column), paper.values.get((row.cell, column))
                if ours and theirs:
                    difference = points(ours.mean - theirs[0])
                    entries.append(Entry(f"{100 * ours.mean:.1f} / {100 * theirs[0]:.1f} / {difference}"))
                else:
                    entries.append(Entry(NOTHING))
            if any(entry.text != NOTHING for entry in entries):
                lines.append([*map(Entry, row.cell), *entries])
        ranks = [Entry(f"{paper.rank_correlation[column]:.2f}", bold=True) for column in shown]
        yield Table(
            f"paper-{group}",
            f"{group} labels: ours / the paper's ({paper.table}) / difference, in percent. Rank correlation: "
            f"Spearman's, over {paper.compared} fusions; left out: {paper.left_out or 'none'}.",
            [("normalisation",), ("fusion",), *((measure_name(column),) for column in shown)],
            "ll" + "r" * len(shown),
            [[[Entry("rank correlation", bold=True), Entry(""), *ranks]], lines],
        )


def overview_table(report: Report) -> Table:
    """A line for each dataset and label group."""
    lines = []
    for dataset in report.datasets:
        for gain in dataset.gains:
            column = gain.column
            if column == decisive(other for other in dataset.columns if other.label_group == column.label_group):
                single = f"{gain.better_single} {printed(gain.singles[gain.better_single]).text}"
                best = f"{gain.best} {printed(gain.best_value).text}"
                mark = " (!)" if warnings(report, dataset) else ""
                words = (dataset.name + mark, column.label_group, measure_name(column), single, best)
                lines.append([*map(Entry, words), Entry(gained(gain.comparison)), Entry(gain.verdict)])
    header = ("dataset", "labels", "measure", "better single", "best fusion", "gain [95%]", "verdict")
    return Table("overview", "", [(name,) for name in header], "lllllrl", [lines])
