"""A night's summary in the forms of others: Slack, Teams, JUnit, Prometheus, OpenMetrics."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any
from xml.etree import ElementTree

from fusion.errors import visible
from fusion.metrics import Measure
from jobs.runtime.safe_text import one_line

Summary = dict[str, Any]
VERDICTS = ("ok", "regression", "missing dataset", "data drift", "failed", "data check", "cost")
LONGEST = 2900
"""Characters of one block of text; Slack takes 3,000."""


def slack(summary: Summary, message: str) -> Summary:
    """The payload of an incoming webhook of Slack."""
    lines = {"type": "section", "text": {"type": "mrkdwn", "text": f"```{_fenced(message)[:LONGEST]}```"}}
    title = one_line(f"Night {summary['run_id']}: {summary['headline']}")[:150]
    header = {"type": "header", "text": {"type": "plain_text", "text": title}}
    return {"text": _slack_text(title), "blocks": [header, lines]}


def teams(summary: Summary, message: str) -> Summary:
    """The payload of a workflow webhook of Teams: an adaptive card."""
    title = one_line(f"Night {summary['run_id']}: {summary['headline']}")
    color = "attention" if summary["exit_code"] else "good"
    body = [
        {"type": "TextBlock", "text": title, "weight": "bolder", "size": "medium", "color": color, "wrap": True},
        {"type": "TextBlock", "text": message, "wrap": True, "fontType": "monospace"},
    ]
    card = {"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4"}
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": {**card, "body": body}}
    return {"type": "message", "attachments": [content]}


def junit(summary: Summary) -> str:
    """A test suite: one case per dataset and watched figure, so that a CI system shows what fell."""
    suite = ElementTree.Element("testsuite", name=f"xmtc-fusion nightly {_xml(summary['run_id'])}")
    failures = errors = cases = 0
    for dataset, facts in summary["datasets"].items():
        for watched in facts["watched"]:
            measure = Measure(watched["metric"], watched["k"])
            name = f"{watched['label_group']} {measure} of {watched['normalization']}"
            case = _case(suite, dataset, f"{name}+{watched['fusion']} since {watched['against']}")
            cases += 1
            if watched["alarm"]:
                failures += 1
                message = f"fell from {watched['baseline']:.4f} to {watched['tonight']:.4f}"
                ElementTree.SubElement(case, "failure", message=message, type="regression")
        case = _case(suite, dataset, "verdict")
        cases += 1
        if facts["verdict"] not in ("ok", "regression"):
            failures += 1
            reasons = "; ".join(_xml(reason) for reason in facts["reasons"])
            ElementTree.SubElement(case, "failure", message=reasons, type=facts["verdict"])
    for path, absent in summary["absent"].items():
        case = _case(suite, absent["dataset"], path)
        ElementTree.SubElement(case, "error", message=_xml(absent["reason"]), type=absent["verdict"])
        cases, errors = cases + 1, errors + 1
    suite.attrib.update(tests=str(cases), failures=str(failures), errors=str(errors))
    return ElementTree.tostring(suite, "unicode", xml_declaration=True) + "\n"


def prometheus(summary: Summary) -> str:
    """For the textfile collector of Prometheus' node exporter."""
    return "\n".join(_metrics(summary)) + "\n"


def openmetrics(summary: Summary) -> str:
    """The same as OpenMetrics, which ends with a mark."""
    return "\n".join([*_metrics(summary), "# EOF"]) + "\n"


def _metrics(summary: Summary) -> Iterator[str]:
    yield from _family("xmtc_fusion_night_exit_code", "Exit code of the last night; 0: no alarm.")
    yield f"xmtc_fusion_night_exit_code {summary['exit_code']}"
    yield from _family("xmtc_fusion_night_finished_timestamp_seconds", "When the last night had its verdict.")
    moment = datetime.fromisoformat(summary["finished"].replace("Z", "+00:00")).timestamp()
    yield f"xmtc_fusion_night_finished_timestamp_seconds {moment:.0f}"
    yield from _family("xmtc_fusion_dataset_verdict", "1 for the verdict of a dataset, 0 for all others.")
    verdicts = {dataset: facts["verdict"] for dataset, facts in summary["datasets"].items()}
    verdicts |= {absent["dataset"]: absent["verdict"] for absent in summary["absent"].values()}
    for dataset, verdict in verdicts.items():
        for word in VERDICTS:
            yield f"xmtc_fusion_dataset_verdict{_labels(dataset=dataset, verdict=word)} {int(word == verdict)}"
    yield from _family("xmtc_fusion_figure", "A watched figure, as a share of 1.")
    for dataset, facts in summary["datasets"].items():
        for figure in facts["figures"]:
            names = {key: figure[key] for key in ("label_group", "metric", "k", "normalization", "fusion")}
            if figure["mean"] is not None:
                yield f"xmtc_fusion_figure{_labels(dataset=dataset, **names)} {figure['mean']!r}"


def _family(name: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} gauge"


def _labels(**labels: Any) -> str:
    escaped = {name: visible(str(value)).replace("\\", r"\\").replace('"', r"\"") for name, value in labels.items()}
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


def _case(suite: ElementTree.Element, dataset: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_xml(dataset), name=_xml(name))


def _xml(text: str) -> str:
    """Text without the signs that XML cannot hold."""
    return visible(text, lines=True)


def _fenced(text: str) -> str:
    """Text that cannot close the fence around it, nor be taken for one of Slack's commands."""
    return _slack_text(text).replace("```", "'''")


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
