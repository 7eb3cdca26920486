"""Alerts: a night's outcome sent to whoever should know, and as JUnit XML for CI systems."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple
from xml.etree import ElementTree

from fusion.errors import ConfigError, SetupError, XmtcError, visible
from fusion.metrics import Measure
from jobs.monitoring.http_post import Answer, checked_address, post_until
from jobs.monitoring.small_files import write_file
from jobs.runtime.log import log
from jobs.settings.alerts import AlertSettings
from jobs.settings.secrets import Secret

Summary = dict[str, Any]
SECONDS = 30.0
"""For one alert, with all its tries."""
TRIES = 3
WEBHOOK = "nightly.alerts.webhook"

NOTIFY = """
import json, sys
sys.path[:], url, message = json.load(sys.stdin)
from apprise import Apprise
service = Apprise()
if not service.add(url):
    sys.exit(3)
sys.exit(0 if message is None or service.notify(**message) else 4)
"""
DONE, NOT_UNDERSTOOD = 0, 3
"""Exit codes of this program. Python itself uses 1 and 2."""


class Delivery(NamedTuple):
    """What became of one alert."""

    channel: str
    delivery: str
    """The same for every try, so that a receiver recognises an alert that it has already; only webhooks have one."""
    delivered: bool
    tries: int
    detail: str

    def __str__(self) -> str:
        return f"{self.channel}: {'sent' if self.delivered else 'NOT sent'}, {self.detail}"


def check_alerts(settings: AlertSettings) -> None:
    """Refuse addresses that cannot be right, and packages and secrets that are missing, before any work is done."""
    if settings.webhook is not None:
        checked_address(settings.webhook.reveal(), WEBHOOK)
    if settings.apprise and find_spec("apprise") is None:
        raise SetupError("nightly.alerts.apprise needs the package apprise: pip install 'xmtc-fusion[alerts]'")
    for number, url in enumerate(settings.apprise, 1):
        code = run_apprise(url.reveal(), None)
        if code == NOT_UNDERSTOOD:
            raise ConfigError(
                f"nightly.alerts.apprise: apprise does not understand address {number} of the list; "
                "https://github.com/caronc/apprise shows what they look like"
            )
        if code != DONE:
            raise SetupError("nightly.alerts.apprise: apprise does not start: try `python -c 'import apprise'`")


def send_alerts(settings: AlertSettings, summary: Summary, message: str, night: str) -> list[Delivery]:
    """Tell everybody who should know. `night` names the attempt. Nothing that goes wrong here is raised."""
    deliveries = []
    if summary["exit_code"] or settings.when == "always":
        if settings.webhook is not None:
            delivery = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{night}/webhook"))
            payload = {**summary, "message": message, "delivery": delivery}
            deliveries.append(_attempted("webhook", delivery, partial(_post, settings.webhook, payload)))
        for number, url in enumerate(settings.apprise, 1):
            deliveries.append(_attempted(f"apprise {number}", "", partial(_notify, url, summary, message)))
    if settings.junit is not None:
        # Every night: a file that is missing says nothing.
        deliveries.append(_attempted("junit", "", partial(_write_junit, settings.junit, summary)))
    for delivery_made in deliveries:
        log(str(delivery_made))
    return deliveries


def _attempted(channel: str, delivery: str, send: Callable[[], tuple[Answer, int]]) -> Delivery:
    try:
        answer, tries = send()
    except XmtcError as error:
        answer, tries = Answer(False, str(error)), 0
    except Exception as error:
        # Its words may hold an address or a password.
        answer, tries = Answer(False, type(error).__name__), 1
    return Delivery(channel, delivery, answer.delivered, tries, answer.detail)


def _post(webhook: Secret, payload: Summary) -> tuple[Answer, int]:
    place = checked_address(webhook.reveal(), WEBHOOK)
    key = {"Idempotency-Key": payload["delivery"]}
    headers = {"Content-Type": "application/json", "User-Agent": "xmtc-fusion", **key}
    return post_until(place, json.dumps(payload, allow_nan=False).encode(), headers, SECONDS, TRIES)


def _notify(url: Secret, summary: Summary, message: str) -> tuple[Answer, int]:
    title = f"xmtc-fusion night {summary['run_id']}: {summary['headline']}"
    kind = "failure" if summary["exit_code"] else "success"
    parts = {"title": title, "body": message, "notify_type": kind, "body_format": "text"}
    code = run_apprise(url.reveal(), parts)
    if code is None:
        return Answer(False, f"no answer within {SECONDS:g} s"), 1
    if code != DONE:
        return Answer(False, "apprise failed; `apprise -vv -b test ADDRESS` says why"), 1
    return Answer(True, "taken by apprise"), 1


def run_apprise(url: str, message: Mapping[str, str] | None, seconds: float = SECONDS) -> int | None:
    """Send a message through apprise, or only see whether it understands the address; its exit code, None if it took
    too long.

    It is a process of its own, because apprise logs whole addresses, and because only a process can be ended while a
    server answers byte by byte. The address goes through its standard input: others can see arguments.
    """
    command = [sys.executable, "-I", "-c", NOTIFY]
    given = json.dumps([[*map(str, sys.path)], url, message]).encode()
    try:
        # What it prints is captured and dropped, since it may hold the address.
        return subprocess.run(command, input=given, timeout=seconds, capture_output=True).returncode
    except subprocess.TimeoutExpired:
        return None


def _write_junit(path: str, summary: Summary) -> tuple[Answer, int]:
    write_file(path, junit(summary).encode())
    return Answer(True, path), 1


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


def _case(suite: ElementTree.Element, dataset: str, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(suite, "testcase", classname=_xml(dataset), name=_xml(name))


def _xml(text: str) -> str:
    """Text without the characters that XML cannot hold."""
    return visible(text, lines=True)
