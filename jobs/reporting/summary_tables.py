"""The tables that answer: the best fusions beside the retrievers, ties, agreement, and the paper's figures."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from fusion.label_groups import ALL
from jobs.reporting.data import Dataset, Report
from jobs.reporting.formats import (
    NOTHING,
    TESTS,
    cell_name,
    effect,
    figure,
    measure_name,
    p_value,
    percent,
    points,
    verdict,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.tables import Entry, Table, aspects_by_group, decisive, warnings


def gain_table(report: Report, dataset: Dataset) -> Table:
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
            words = [group, measure_name(gain.aspect), *values, cell_name(gain.best), gained(against)]
            words += [effect(against.effect), *(p_value(against.p(test)) for test in TESTS), verdict(gain.verdict)]
            lines.append([*map(Entry, words)])
        blocks.append(lines)
    ideal = any(gain.aspect.ideal != ALL for gain in shown)
    return Table(
        "gain",
        f"{dataset.name}. The best fusion of each measure beside the single retrievers, in percent. Gain: over the "
        "better of them, in points, with its 95% interval; effect: mean difference over its standard deviation between "
        f"texts. {_rests_on(dataset)}" + " (group): the ideal ranking holds only labels of the group." * ideal,
        [
            *(("", name) for name in ("labels", "measure", *singles, "best", "fusion", "gain", "effect")),
            *(("p", name.replace("randomization", "random.")) for name in TESTS),
            ("", "verdict"),
        ],
        "ll" + "r" * (len(singles) + 1) + "lrrrrrl",
        blocks,
        warnings(dataset),
    )


def _rests_on(dataset: Dataset) -> str:
    if len(dataset.folds) > 1:
        return "Called better or worse only where folds and texts both say so."
    return "One fold leaves nothing for a test over folds: better or worse by the test over texts."


def tie_table(report: Report, dataset: Dataset) -> Table:
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
        f"Fusions, of {len(cells)}, that are best or not told apart from the best (alpha = {report.alpha:g}); "
        "the test in bold decides the bold face.",
        [("", "test"), *((aspect.label_group, measure_name(aspect)) for aspect in aspects)],
        "l" + "r" * len(aspects),
        [lines],
    )


def agreement_table(dataset: Dataset) -> Table:
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


def paper_tables(dataset: Dataset) -> Iterator[Table]:
    """The paper's figures beside ours, one table per label group."""
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
            [("normalisation",), ("fusion",), *((measure_name(aspect),) for aspect in shown)],
            "ll" + "r" * len(shown),
            [[[Entry("rank correlation", bold=True), Entry(""), *ranks]], lines],
        )


def overview_table(report: Report) -> Table:
    """A line for each dataset and label group."""
    lines = []
    for dataset in report.datasets:
        for gain in dataset.gains:
            aspect = gain.aspect
            if aspect == decisive(other for other in dataset.aspects if other.label_group == aspect.label_group):
                single = f"{gain.better_single} {figure(gain.singles[gain.better_single])}"
                best = f"{cell_name(gain.best)} {figure(gain.best_value)}"
                name = dataset.name + (" (!)" if warnings(dataset) else "")
                words = (name, aspect.label_group, measure_name(aspect), single, best, gained(gain.comparison))
                lines.append([*map(Entry, words), Entry(verdict(gain.verdict))])
    header = ("dataset", "labels", "measure", "best single", "best fusion", "gain [95%]", "verdict")
    return Table("overview", "", [(name,) for name in header], "lllllrl", [lines])
