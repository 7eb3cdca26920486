"""Posting to an address: encrypted or on this machine, without following redirects, within one deadline."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from fusion.errors import ConfigError

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
