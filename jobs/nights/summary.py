"""The outcome of a night for programs: a summary in JSON, and a test suite in JUnit's XML."""

from __future__ import annotations

import math
from typing import Any
from xml.etree import ElementTree

from fusion.errors import visible
from jobs.nights.night import OK, REGRESSION, DatasetNight, Night


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
