"""The tables of a report."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby
from itertools import count as numbers

from fusion.cells import Cell
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive_aspect
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import (
    NOTHING,
    TESTS,
    aspect_name,
    cell_name,
    count,
    cutoff,
    effect,
    figure,
    full_metric_name,
    metric_name,
    p_value,
    percent,
    points,
    shown_cell,
    verdict,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import FALLEN, NightBanner, Row, Value, group_order
from jobs.reporting.parts import BEST, Entry, Table

WIDEST = 12
"""Aspects that fit side by side on a page."""


def fall_table(night: NightBanner) -> Table | None:
    """The figures that fell in a night, a line each."""
    lines = [[Entry(text, bold=name == "to") for name, text in zip(FALLEN, row, strict=True)] for row in night.fallen]
    return Table("fell", "", [(name,) for name in FALLEN], "llrrrlr", [lines]) if lines else None


def file_names(names: Iterable[str]) -> dict[str, str]:
    """A name for files of each name: distinct, and without the underscore that joins the parts of a file's name."""
    files: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[\W_]+", "-", name).strip("-").lower()
        numbered = (f"{plain}-{n}".strip("-") for n in numbers(2))
        files[name] = next(file for file in chain([plain], numbered) if file and file not in files.values())
    return files


def aspects_by_group(dataset: DatasetReport) -> dict[str, list[Aspect]]:
    """The aspects of the paper's protocol: tail, head, other groups, all; the cut-offs of a metric side by side."""
    aspects = [aspect for aspect in dataset.aspects if aspect.ideal == ALL]
    metrics = list(dict.fromkeys(aspect.metric for aspect in aspects))
    aspects.sort(key=lambda aspect: (metrics.index(aspect.metric), aspect.k))
    groups = dict.fromkeys(aspect.label_group for aspect in dataset.aspects if aspect in aspects)
    return {
        group: [aspect for aspect in aspects if aspect.label_group == group]
        for group in sorted(groups, key=group_order)
    }


def printed(value: Value | None) -> Entry:
    return Entry(figure(value), value is not None and value.bold, value is not None and value.best)


def warnings(dataset: DatasetReport) -> list[str]:
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


def legend(report: Report, dataset: DatasetReport, groups: Collection[str]) -> str:
    """How the table of a grid is to be read."""
    folds = f"Mean(standard deviation) over {len(dataset.folds)} folds" if len(dataset.folds) > 1 else "One fold"
    texts = ", ".join(f"{count(dataset.texts[group], 'text')} ({group} labels)" for group in groups)
    return f"{dataset.name}. {folds}, in percent; {texts}. {bold_face(report, dataset)}"


def bold_face(report: Report, dataset: DatasetReport) -> str:
    """What the bold face stands for."""
    if not tested(dataset):
        return f"Bold and {BEST}: the best fusion of a column; nothing is tested."
    test = f"{TESTS[dataset.test]}; alpha = {report.alpha:g}"
    if report.test != dataset.test:
        test += "; one fold leaves nothing for a test over folds"
    return (
        f"Bold: the best fusion of a column ({BEST}) and those not significantly different from it by the deciding "
        f"test ({test})."
    )


def tested(dataset: DatasetReport) -> bool:
    values = (value for row in dataset.rows for value in row.values.values())
    return any(value.against_best and value.against_best.p(dataset.test) is not None for value in values)


def out_of_order(dataset: DatasetReport, aspects: Collection[Aspect]) -> str:
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


def distinct_rows(dataset: DatasetReport) -> list[Row]:
    """Each distinct result once, the best of the most important aspect first: a fusion that reads only ranks gives the
    same under every normalisation."""
    shown: dict[Cell, Row] = {}
    for row in dataset.rows:
        shown.setdefault(shown_cell(row.cell), Row(shown_cell(row.cell), row.values))
    aspects = [aspect for aspect in dataset.aspects if aspect.label_group == ALL] or list(dataset.aspects)
    aspect = decisive_aspect(aspects)
    means = {cell: row.values[aspect].mean if aspect in row.values else -1.0 for cell, row in shown.items()}
    return sorted(shown.values(), key=lambda row: -means[row.cell])


def grid_tables(report: Report, dataset: DatasetReport, rows: Sequence[Row] | None = None) -> Iterator[Table]:
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


def gain_table(dataset: DatasetReport) -> Table:
    """Single retrievers and the best fusion side by side."""
    # Precision has no ideal ranking: its figures are the same under every ideal.
    shown = [gain for gain in dataset.gains if gain.aspect.ideal == ALL or gain.aspect.metric != "precision"]
    singles = list(shown[0].singles) if shown else []
    blocks = []
    for group, gains in groupby(shown, key=lambda gain: gain.aspect.label_group):
        lines = []
        for gain in gains:
            against = gain.comparison
            values = [figure(value) for value in (*map(gain.singles.get, singles), gain.best_value)]
            words = [group, full_metric_name(gain.aspect), *values, cell_name(gain.best), gained(against)]
            words += [effect(against.effect), *(p_value(against.p(test)) for test in TESTS), verdict(gain.verdict)]
            lines.append([*map(Entry, words)])
        blocks.append(lines)
    ideal = any(gain.aspect.ideal != ALL for gain in shown)
    return Table(
        "gain",
        f"{dataset.name}. The best fusion of each metric next to the single retrievers, in percent. Gain: over the "
        "better of them, in points, with its 95% interval; effect: mean difference over its standard deviation between "
        f"texts. {_rests_on(dataset)}" + " (group): the ideal ranking holds only labels of the group." * ideal,
        [
            *(("", name) for name in ("labels", "metric", *singles, "best", "fusion", "gain", "effect")),
            *(("p", name.replace("randomization", "random.")) for name in TESTS),
            ("", "verdict"),
        ],
        "ll" + "r" * (len(singles) + 1) + "lrrrrrl",
        blocks,
        warnings(dataset),
    )


def _rests_on(dataset: DatasetReport) -> str:
    if len(dataset.folds) > 1:
        return "Called better or worse only where folds and texts both say so."
    return "One fold leaves nothing for a test over folds: better or worse by the test over texts."


def tie_table(report: Report, dataset: DatasetReport) -> Table:
    """How many fusions each test leaves in the running, for the aspects of the paper's protocol."""
    aspects = [aspect for of_group in aspects_by_group(dataset).values() for aspect in of_group]
    cells = [row for row in dataset.rows if not row.single]
    lines = []
    for test, meaning in TESTS.items():
        line = [Entry(meaning, bold=test == dataset.test)]
        for aspect in aspects:
            against = [row.values[aspect].against_best for row in cells if aspect in row.values]
            ps = [None if comparison is None else comparison.p(test) for comparison in against]
            tested = [p for p in ps if p is not None]
            line.append(Entry(str(1 + sum(p >= report.alpha for p in tested)) if tested else NOTHING))
        lines.append(line)
    return Table(
        "ties",
        f"Cells, of {len(cells)}, that are best or not significantly different from the best (alpha = "
        f"{report.alpha:g}); the test in bold decides the bold face.",
        [("", "test"), *((aspect.label_group, full_metric_name(aspect)) for aspect in aspects)],
        "l" + "r" * len(aspects),
        [lines],
    )


def agreement_table(dataset: DatasetReport) -> Table:
    """What the retrievers have in common, one line per label group."""
    lines: list[dict[str, str]] = []
    for group in dataset.agreement:
        shares = {f"found by {name}": share for name, share in group.found.items()}
        shares |= {f"by {name} alone": share for name, share in group.alone.items()} | {"by any": group.union}
        shares |= {f"candidates common to {' and '.join(pair)}": share for pair, share in group.overlap.items()}
        words = {name: percent(share) for name, share in shares.items()}
        words |= {f"candidates of {name}": f"{length:.1f}" for name, length in group.candidates.items()}
        lines.append({"labels": group.label_group, **words})
    header = list(dict.fromkeys(name for line in lines for name in line))
    return Table(
        "agreement",
        "Relevant labels found, and candidates that two retrievers have in common, in percent; candidates per text.",
        [(name,) for name in header],
        "l" + "r" * (len(header) - 1),
        [[[Entry(line.get(name, NOTHING)) for name in header] for line in lines]],
    )


def paper_tables(dataset: DatasetReport) -> Iterator[Table]:
    """The paper's figures next to ours, one table per label group."""
    paper = dataset.paper
    if paper is None:
        return
    for group, aspects in aspects_by_group(dataset).items():
        shown = [aspect for aspect in aspects if aspect in paper.rank_correlation]
        if not shown:
            continue
        lines = []
        for row in dataset.rows:
            entries = []
            for aspect in shown:
                ours, theirs = row.values.get(aspect), paper.values.get((row.cell, aspect))
                if ours and theirs:
                    difference = points(ours.mean - theirs[0])
                    entries.append(Entry(f"{percent(ours.mean)} / {percent(theirs[0])} / {difference}"))
                else:
                    entries.append(Entry(NOTHING))
            if any(entry.text != NOTHING for entry in entries):
                lines.append([*map(Entry, row.cell), *entries])
        ranks = [Entry(f"{paper.rank_correlation[aspect]:.2f}", bold=True) for aspect in shown]
        yield Table(
            f"paper-{group}",
            f"{group} labels: ours / the paper's ({paper.table}) / difference, in percent. Rank correlation: "
            f"Spearman's, over {paper.compared} fusions; left out: {paper.left_out or 'none'}.",
            [("normalisation",), ("fusion",), *((full_metric_name(aspect),) for aspect in shown)],
            "ll" + "r" * len(shown),
            [[[Entry("rank correlation", bold=True), Entry(""), *ranks]], lines],
        )


def overview_table(report: Report) -> Table:
    """A line for each dataset and label group."""
    lines = []
    for dataset in report.datasets:
        for gain in dataset.gains:
            aspect = gain.aspect
            if aspect == decisive_aspect(other for other in dataset.aspects if other.label_group == aspect.label_group):
                single = f"{gain.better_single} {figure(gain.singles[gain.better_single])}"
                best = f"{cell_name(gain.best)} {figure(gain.best_value)}"
                name = dataset.name + (" (!)" if warnings(dataset) else "")
                words = (name, aspect.label_group, full_metric_name(aspect), single, best, gained(gain.comparison))
                lines.append([*map(Entry, words), Entry(verdict(gain.verdict))])
    header = ("dataset", "labels", "metric", "best single", "best fusion", "gain [95%]", "verdict")
    return Table("overview", "", [(name,) for name in header], "lllllrl", [lines])
