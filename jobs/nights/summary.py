"""The outcome of a night: for programs, as JSON and as a test suite in JUnit's XML; and as its pages begin with it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from fusion.errors import visible
from jobs.nights.night import OK, REGRESSION, DatasetNight, Night
from jobs.reporting.dataset import Report
from jobs.reporting.formats import percent
from jobs.reporting.model import NightBanner


def summary(night: Night) -> dict[str, Any]:
    """The outcome as data."""
    return {
        "run_id": night.run_id,
        "attempt": night.attempt,
        "exit_code": night.exit_code,
        "headline": night.headline,
        "started": night.started,
        "finished": night.finished,
        "recorded": night.unrecorded is None,
        "problems": list(night.problems),
        "absent": {
            absent.file: {"dataset": absent.dataset, "verdict": absent.verdict, "reason": absent.reason}
            for absent in night.absent
        },
        "datasets": {dataset.name: _without_nan(_facts(dataset)) for dataset in night.datasets},
    }


def _facts(dataset: DatasetNight) -> dict[str, Any]:
    return {
        "verdict": dataset.verdict,
        "evaluated": dataset.results.built,
        "baseline": dataset.against,
        "changed": dataset.changed,
        "changed_inputs": dataset.changed_inputs,
        "reasons": dataset.reasons,
        "figures": list(dataset.figures),
        "watched": [
            {
                "dataset": dataset.name,
                **compared.figure._asdict(),
                "against": compared.against,
                **compared.change._asdict(),
                "alarm": compared.fell,
                # False: the two means are over different texts and do not compare by themselves.
                "same_texts": compared.change.paired or not (compared.change.new or compared.change.gone),
            }
            for compared in dataset.compared
        ],
        "uncompared": [
            {"dataset": dataset.name, **one.figure._asdict(), "against": one.against, "reason": one.reason}
            for one in dataset.uncompared
        ],
        "checks": [check.as_row() for check in dataset.checks],
        "cost": [check.as_row() for check in dataset.costs],
        "drift": [movement.as_row() for movement in dataset.movements],
        "other_choices": [choice._asdict() for choice in dataset.other_choices],
        "next_steps": list(dataset.next_steps),
        "fingerprints": dataset.results.inputs.fingerprints,
        "stages": list(dataset.stages),
    }


def _without_nan(value: Any) -> Any:
    """None for what is not a number: JSON has no other word for it."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def junit(night: Night) -> str:
    """A test suite: one case per dataset and watched figure, so that a CI system shows what fell."""
    suite = ElementTree.Element("testsuite", name=f"xmtc-fusion nightly {_xml(night.run_id)}")
    for dataset in night.datasets:
        for compared in dataset.compared:
            figure = compared.figure
            name = f"{figure.label_group} {figure.metric_at_k} of {figure.cell} since {compared.against}"
            case = _case(suite, dataset.name, name)
            if compared.fell:
                message = f"fell from {compared.change.baseline:.4f} to {compared.change.tonight:.4f}"
                ElementTree.SubElement(case, "failure", message=message, type="regression")
        case = _case(suite, dataset.name, "verdict")
        if dataset.verdict not in (OK, REGRESSION):
            reasons = "; ".join(map(_xml, dataset.reasons))
            ElementTree.SubElement(case, "failure", message=reasons, type=dataset.verdict)
    for absent in night.absent:
        case = _case(suite, absent.dataset, absent.file)
        ElementTree.SubElement(case, "error", message=_xml(absent.reason), type=absent.verdict)
    counts = {f"{tag}s": str(len(suite.findall(f"*/{tag}"))) for tag in ("failure", "error")}
    suite.attrib.update(tests=str(len(suite)), **counts)
    return ElementTree.tostring(suite, "unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, dataset: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_xml(dataset), name=_xml(name))


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return visible(text, lines=True)


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
