"""Alerts: who is sent the outcome of a night, and how."""

from __future__ import annotations

import ipaddress
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

from fusion.errors import ConfigError, SetupError, XmtcError
from jobs.nights.night import Night
from jobs.nights.summary import junit, summary
from jobs.runtime.log import log
from jobs.settings.base import Secret
from jobs.settings.nightly import AlertSettings
from jobs.storage.folders import output_errors
from udfs.stores.objects import put

LOOPBACK = "localhost"


class Answer(NamedTuple):
    """What became of a request. `detail` says so in words, without the address, which may hold a token."""

    delivered: bool
    detail: str
    worth_trying_again: bool = False


def checked_address(address: str, setting: str) -> SplitResult:
    """The parts of an address that may be posted to."""
    try:
        place = urlsplit(address)
        place.port  # noqa: B018 - a port that is no number is found out when it is asked for
    except ValueError:
        raise ConfigError(f"{setting}: this is not an address; expected https://...") from None
    if not place.hostname or place.scheme not in ("http", "https"):
        raise ConfigError(f"{setting}: expected an address that begins with https://")
    if place.scheme == "http" and not _on_this_machine(place.hostname):
        raise ConfigError(f"{setting}: expected https://, otherwise others could read the address and the message")
    return place


def _on_this_machine(host: str) -> bool:
    if host == LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def post(place: SplitResult, body: bytes, headers: Mapping[str, str], seconds: float) -> Answer:
    """Post once. A server that answers slowly, byte by byte, does not hold the caller longer than `seconds`."""
    answers: list[Answer] = []
    kind = HTTPSConnection if place.scheme == "https" else HTTPConnection
    connection = kind(place.hostname or "", place.port, timeout=seconds)
    thread = threading.Thread(target=lambda: answers.append(_asked(connection, place, body, headers)), daemon=True)
    thread.start()
    thread.join(seconds)
    if not answers:
        connection.close()
        return Answer(False, f"no answer within {seconds:g} s", True)
    return answers[0]


def _asked(connection: HTTPConnection, place: SplitResult, body: bytes, headers: Mapping[str, str]) -> Answer:
    path = (place.path or "/") + (f"?{place.query}" if place.query else "")
    try:
        connection.request("POST", path, body, dict(headers))
        status = connection.getresponse().status
    except (OSError, HTTPException, ValueError) as error:
        return Answer(False, f"{type(error).__name__}: {_without(str(error), place)}", True)
    finally:
        connection.close()
    if 200 <= status < 300:
        return Answer(True, f"answered {status}")
    if 300 <= status < 400:
        return Answer(False, f"answered {status}: redirects are not followed, give the address itself")
    return Answer(False, f"answered {status}", status >= 500 or status in (408, 425, 429))


def _without(text: str, place: SplitResult) -> str:
    """An error's words without the parts of an address that may be secret."""
    for secret in (place.path.strip("/"), place.query, place.username, place.password):
        if secret:
            text = text.replace(secret, "...")
    return text


def post_until(
    place: SplitResult, body: bytes, headers: Mapping[str, str], seconds: float, tries: int, pause: float = 1.0
) -> tuple[Answer, int]:
    """Post until it is delivered, with longer and longer pauses, within one deadline; the last answer and the number
    of tries."""
    until, tried = time.monotonic() + seconds, 0
    while True:
        tried += 1
        answer = post(place, body, headers, max(until - time.monotonic(), 0.1))
        left = until - time.monotonic()
        if answer.delivered or not answer.worth_trying_again or tried == tries or left <= pause:
            return answer, tried
        time.sleep(pause)
        pause *= 2


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
        raise SetupError("nightly.alerts.apprise needs the package apprise: pip install '.[alerts]'")
    for number, url in enumerate(settings.apprise, 1):
        code = run_apprise(url.reveal(), None)
        if code == NOT_UNDERSTOOD:
            raise ConfigError(
                f"nightly.alerts.apprise: apprise does not understand address {number} of the list; "
                "https://github.com/caronc/apprise shows what they look like"
            )
        if code != DONE:
            raise SetupError("nightly.alerts.apprise: apprise does not start: try `python -c 'import apprise'`")


def send_alerts(settings: AlertSettings, night: Night, history: str) -> list[Delivery]:
    """Send the outcome to all who should know. `history` is its place. Nothing that goes wrong here is raised."""
    deliveries = []
    if night.exit_code or settings.when == "always":
        if settings.webhook is not None:
            attempt = f"{history}/{night.run_id}/{night.attempt}"
            key = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{attempt}/webhook"))
            payload = {**summary(night), "message": str(night), "delivery": key}
            deliveries.append(_attempted("webhook", key, partial(_post, settings.webhook, payload)))
        for number, url in enumerate(settings.apprise, 1):
            deliveries.append(_attempted(f"apprise {number}", "", partial(_notify, url, night)))
    if settings.junit is not None:
        # Every night: a file that is missing says nothing.
        deliveries.append(_attempted("junit", "", partial(_write_junit, settings.junit, night)))
    for delivery in deliveries:
        log(str(delivery))
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


def _post(webhook: Secret, payload: dict[str, Any]) -> tuple[Answer, int]:
    place = checked_address(webhook.reveal(), WEBHOOK)
    key = {"Idempotency-Key": payload["delivery"]}
    headers = {"Content-Type": "application/json", "User-Agent": "xmtc-fusion", **key}
    return post_until(place, json.dumps(payload, allow_nan=False).encode(), headers, SECONDS, TRIES)


def _notify(url: Secret, night: Night) -> tuple[Answer, int]:
    title = f"xmtc-fusion night {night.run_id}: {night.headline}"
    kind = "failure" if night.exit_code else "success"
    parts = {"title": title, "body": str(night), "notify_type": kind, "body_format": "text"}
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


def _write_junit(path: str, night: Night) -> tuple[Answer, int]:
    with output_errors(path):
        put(path, junit(night).encode())
    return Answer(True, path), 1
