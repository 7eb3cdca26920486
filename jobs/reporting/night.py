"""How a night went, in words: what fell, from where to where, over which texts, since when, and what changed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from jobs.reporting.dataset import Report
from jobs.reporting.formats import count, joined, p_value, percent, plain, watched_name
from jobs.reporting.formats import gain as gained
from jobs.reporting.night_data import QUIET, AbsentDataset, DatasetNight, NightVerdict, WatchedChange
from jobs.reporting.tables import Entry, Table
from jobs.storage.folders import one_line

CAUSES = ("data", "configuration", "code")


def headline(night: NightVerdict) -> str:
    """The night in one line."""
    fallen = sum(len(dataset.fallen) for dataset in night.datasets)
    moved = sum(len(dataset.moved) for dataset in night.datasets)
    parts = []
    if fallen:
        since = joined(list(dict.fromkeys(change.against for dataset in night.datasets for change in dataset.fallen)))
        parts.append(f"Regression: {count(fallen, 'watched figure')} fell since {since}")
    parts += [f"{absent.dataset} has no figures ({absent.verdict})" for absent in night.absent]
    breaches = sum(len(dataset.breaches) for dataset in night.datasets)
    parts += [
        f"not everything that is watched of {dataset.dataset} could be compared"
        for dataset in night.datasets
        if dataset.uncompared
    ]
    if breaches:
        parts.append(f"{count(breaches, 'bound')} of the data or the cost not kept")
    if moved:
        parts.append(f"{count(moved, 'quantity').replace('quantitys', 'quantities')} of the data moved")
    if not parts:
        against = list(dict.fromkeys(dataset.baseline for dataset in night.datasets if dataset.baseline))
        first = [dataset.dataset for dataset in night.datasets if not dataset.baseline]
        parts.append(f"No figure fell since {joined(against)}" if against else "First night: nothing to compare with")
        parts += [f"{joined(first)}: no baseline yet, nothing to compare with"] if against and first else []
    return "; ".join(parts) + "."


def causes(dataset: DatasetNight) -> str:
    """What changed since the baseline, and what did not."""
    if dataset.baseline is None:
        return f"{dataset.dataset}: no baseline yet, nothing to compare with."
    same = [what for what in CAUSES if not any(changed.startswith(what) for changed in dataset.changed)]
    changed = f"changed: {joined(list(dataset.changed))}" if dataset.changed else "nothing changed"
    unchanged = f"; unchanged: {joined(same)}" if dataset.changed and same else ""
    return f"{dataset.dataset}: since {dataset.baseline} {changed}{unchanged}."


def over_texts(change: WatchedChange) -> str:
    """The texts that a change was tested on."""
    texts = count(change.comparison.texts or 0)
    how = f"over {texts} unchanged texts" if change.paired else f"between {texts} texts of either night"
    others = [f"{count(change.new)} are new or judged otherwise, {count(change.gone)} gone"]
    others = others if change.new or change.gone else []
    others += [f"{count(change.other_folds)} in another fold than then"] if change.other_folds else []
    return how + (f" ({'; '.join(others)})" if others else "")


def _texts(change: WatchedChange) -> str:
    """The same in a table's few words."""
    texts = f"{count(change.comparison.texts or 0)} {'unchanged' if change.paired else 'of either night'}"
    others = f", {count(change.new)} new or judged otherwise, {count(change.gone)} gone"
    return texts + (others if change.new or change.gone else "")


def fall(change: WatchedChange) -> str:
    """What fell, from where to where, over how many texts, since when."""
    return (
        f"{watched_name(change.aspect, change.cell)} fell from {percent(change.before, 2)} "
        f"({change.against}) to {percent(change.now, 2)}: {gained(change.comparison, 2)} {over_texts(change)}, "
        f"p {p_value(change.comparison.p_queries)}"
    )


def lower_without_alarm(dataset: DatasetNight) -> Iterator[str]:
    """Figures that are lower by more than the tolerance and gave no alarm, with the reason."""
    for change in dataset.watched:
        # Too few texts for a test are an alarm of its own.
        untested = change.comparison.p_queries is not None and math.isnan(change.comparison.p_queries)
        if change.fell or untested or change.comparison.difference >= -dataset.tolerance:
            continue
        moved = f"{percent(change.before)} ({change.against}) to {percent(change.now)}"
        name = watched_name(change.aspect, change.cell)
        if change.paired:
            why = "the texts do not tell that from chance"
        else:
            why = "the two means are over different texts, and the difference can be theirs"
        yield f"{name} went from {moved}, which is no alarm: {why} ({gained(change.comparison)}, {over_texts(change)})"


def data_moves(dataset: DatasetNight) -> list[str]:
    return [f"{move.quantity} moved by {move.change:.3f}, more than {move.allowed:g}" for move in dataset.moved]


def _absent(absent: AbsentDataset) -> str:
    return one_line(f"{absent.dataset}: {absent.verdict}: {absent.path}: {absent.reason}")


def notes(night: NightVerdict) -> list[str]:
    """What a page says below the headline, a line each: causes, data that moved, drops without alarm, absences."""
    lines = [*map(_absent, night.absent)]
    for dataset in night.datasets:
        lines.append(causes(dataset))
        details = [
            *dataset.uncompared,
            *dataset.breaches,
            *data_moves(dataset),
            *lower_without_alarm(dataset),
            *dataset.other_choices,
        ]
        details += dataset.next_steps
        lines += [f"{dataset.dataset}: {line}." for line in details]
    return [*lines, *night.problems]


def night_report(report: Report, night: NightVerdict) -> Report:
    """The report of a night. Where the night raised an alarm, its figures are in doubt: it recommends no fusion, and
    says what to look at."""
    datasets = report.datasets
    if night.exit_code:
        datasets = tuple(one.in_doubt(look_at(night, one.name)) for one in datasets)
    return replace(report, night=night, datasets=datasets)


def look_at(night: NightVerdict, name: str) -> str:
    """What stands in place of a recommendation for a dataset."""
    nothing = "Nothing is recommended on a night with an alarm."
    mine = next((dataset for dataset in night.datasets if dataset.dataset == name), None)
    if mine is None or mine.verdict == QUIET:
        return f"{nothing} {name} raised none: look at the others first."
    fallen = sorted(mine.fallen, key=lambda change: change.comparison.difference)
    falls = [
        f"{watched_name(change.aspect, change.cell)}, from {percent(change.before)} to {percent(change.now)}"
        for change in fallen[:1]
    ]
    reasons = [*falls, *mine.uncompared[:1], *mine.breaches[:1], *data_moves(mine)[:1]] or [mine.verdict]
    return f"{nothing} Look first at: {'; '.join(reasons)}."


def fall_table(night: NightVerdict) -> Table | None:
    """The figures that fell, a line each."""
    lines = [
        [
            Entry(dataset.dataset),
            Entry(watched_name(change.aspect, change.cell)),
            Entry(f"{percent(change.before, 2)} ({change.against})"),
            Entry(percent(change.now, 2), bold=True),
            Entry(gained(change.comparison, 2)),
            Entry(_texts(change)),
            Entry(p_value(change.comparison.p_queries)),
        ]
        for dataset in night.datasets
        for change in sorted(dataset.fallen, key=lambda change: change.comparison.difference)
    ]
    header = ("dataset", "what fell", "from", "to", "change [95%]", "texts tested", "p")
    return Table("fell", "", [(name,) for name in header], "llrrrlr", [lines]) if lines else None


def message(night: NightVerdict) -> str:
    """The lines that matter, for a terminal."""
    lines = [f"night {night.run_id}: exit code {night.exit_code}"]
    lines += map(_absent, night.absent)
    for dataset in night.datasets:
        changed = f"against {dataset.baseline}, changed since: {', '.join(dataset.changed) or 'nothing'}"
        work = "evaluated" if dataset.evaluated else "nothing to do, figures kept"
        lines.append(
            f"{dataset.dataset}: {dataset.verdict}; {changed if dataset.baseline else 'no baseline yet'}; {work}"
        )
        details = [
            *dataset.uncompared,
            *dataset.breaches,
            *map(fall, dataset.fallen),
            *data_moves(dataset),
            *lower_without_alarm(dataset),
        ]
        lines += [f"  {line}" for line in [*details, *dataset.other_choices, *dataset.next_steps]]
    return "\n".join(map(plain, [*lines, *map(one_line, night.problems)]))
