"""How a night went, as its pages begin with it, and as its report recommends."""

from __future__ import annotations

from dataclasses import replace

from jobs.nights.night import OK, Night
from jobs.reporting.dataset import Report
from jobs.reporting.formats import percent
from jobs.reporting.model import NightBanner


def banner(night: Night) -> NightBanner:
    """What every page of the night begins with."""
    fallen = [
        (
            dataset.name,
            str(compared.figure),
            f"{percent(compared.change.baseline, 2)} ({compared.against})",
            percent(compared.change.tonight, 2),
            compared.gain(2),
            compared.over_texts_short,
            compared.p,
        )
        for dataset in night.datasets
        for compared in dataset.worst_first
    ]
    return NightBanner(night.run_id, night.exit_code, night.headline, tuple(fallen), tuple(notes(night)))


def notes(night: Night) -> list[str]:
    """What a page says below the headline, a line each: absences, causes, what was and was not an alarm."""
    lines = [str(absent) for absent in night.absent]
    for dataset in night.datasets:
        lines.append(dataset.causes)
        details = [*dataset.not_compared, *dataset.breaches, *dataset.moved, *dataset.lower_without_alarm]
        details += [*dataset.other_choices, *dataset.next_steps]
        lines += [f"{dataset.name}: {line}." for line in details]
    return [*lines, *night.all_problems]


def night_report(report: Report, night: Night) -> Report:
    """The report of a night. Where the night raised an alarm, its figures are in doubt: it recommends no fusion, and
    says what to look at."""
    datasets = report.datasets
    if night.exit_code:
        datasets = tuple(one.in_doubt(look_at(night, one.name)) for one in datasets)
    return replace(report, night=banner(night), datasets=datasets)


def look_at(night: Night, name: str) -> str:
    """What is in place of a recommendation for a dataset."""
    nothing = "Nothing is recommended on a night with an alarm."
    dataset = next((dataset for dataset in night.datasets if dataset.name == name), None)
    if dataset is None or dataset.verdict == OK:
        return f"{nothing} {name} raised none: look at the others first."
    falls = [
        f"{worst.figure}, from {percent(worst.change.baseline)} to {percent(worst.change.tonight)}"
        for worst in dataset.worst_first[:1]
    ]
    reasons = [*falls, *dataset.not_compared[:1], *map(str, dataset.breaches[:1]), *map(str, dataset.moved[:1])]
    return f"{nothing} Look first at: {'; '.join(reasons or [dataset.verdict])}."
