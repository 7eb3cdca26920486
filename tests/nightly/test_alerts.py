"""Alerts against real receivers on loopback: what they get, what counts as delivered, and how long it may take."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from fusion.errors import ConfigError, SetupError
from jobs.nights.alerts import Answer, check_alerts, checked_address, post, post_until, run_apprise, send_alerts
from jobs.nights.night import Night
from jobs.settings.nightly import AlertSettings
from tests.nights import Site, good_texts
from tests.receivers import Inbox, http_receiver, slowly


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"), good_texts(120))


@pytest.fixture(scope="module")
def night(site: Site) -> Night:
    """A night with a fall and a dataset that is missing."""
    site.run("good")
    site.degrade(1)
    night = site.run("bad", nightly__datasets=[str(site.dataset), "gone <&>.yaml"])
    assert night.exit_code == 10
    return night


def sent(night: Night, **settings: Any) -> list[tuple[str, bool, int, str]]:
    alerts = AlertSettings(**settings)
    deliveries = send_alerts(alerts, night, "place")
    return [(made.channel, made.delivered, made.tries, made.detail) for made in deliveries]


def test_a_webhook_gets_the_summary(night: Night) -> None:
    inbox = Inbox()
    with http_receiver(inbox) as address:
        assert sent(night, webhook=address) == [("webhook", True, 1, "answered 204")]
        assert sent(night, webhook=address)[0][1]
    body = inbox.bodies[0]
    assert (body["run_id"], body["exit_code"]) == ("bad", 10)
    assert "fell from" in body["message"]
    # The same alert has the same id, so that a receiver can tell it.
    assert inbox.headers[0]["Idempotency-Key"] == inbox.headers[1]["Idempotency-Key"] == body["delivery"]


def test_a_quiet_night_is_told_only_if_asked(site: Site, night: Night) -> None:
    inbox = Inbox()
    with http_receiver(inbox) as address:
        quiet = Night("quiet", "2026-03-02T00:00:00Z", finished="2026-03-02T00:01:00Z")
        assert sent(quiet, webhook=address) == []
        assert len(sent(quiet, webhook=address, when="always")) == 1
    assert inbox.bodies[0]["exit_code"] == 0


def redirect(handler: BaseHTTPRequestHandler, count: int) -> None:
    handler.send_response(302)
    handler.send_header("Location", "/elsewhere")
    handler.end_headers()


def busy_twice(handler: BaseHTTPRequestHandler, count: int) -> None:
    handler.send_response(503 if count < 2 else 200)
    handler.end_headers()


def refuse(handler: BaseHTTPRequestHandler, count: int) -> None:
    handler.send_response(403)
    handler.end_headers()


def test_redirects_are_not_deliveries(night: Night) -> None:
    inbox = Inbox()
    with http_receiver(inbox, redirect) as address:
        (made,) = sent(night, webhook=address)
    assert made[1:3] == (False, 1) and "redirects are not followed" in made[3]
    assert len(inbox.bodies) == 1


def test_what_may_pass_is_tried_again(night: Night) -> None:
    inbox = Inbox()
    with http_receiver(inbox, busy_twice) as address:
        assert sent(night, webhook=address) == [("webhook", True, 3, "answered 200")]
    assert len({headers["Idempotency-Key"] for headers in inbox.headers}) == 1
    with http_receiver(Inbox(), busy_twice) as address:
        place = checked_address(address, "x")
        assert post_until(place, b"{}", {}, seconds=9, tries=2, pause=0) == (Answer(False, "answered 503", True), 2)
    with http_receiver(Inbox(), refuse) as address:
        assert sent(night, webhook=address) == [("webhook", False, 1, "answered 403")]


def test_a_slow_server_does_not_hold_the_night() -> None:
    """Every byte in time, but not the whole."""
    with http_receiver(Inbox(), slowly) as address:
        begin = time.monotonic()
        answer, _ = post_until(checked_address(address, "x"), b"{}", {}, seconds=1, tries=5)
        assert not answer.delivered and answer.detail.startswith("no answer within")
        assert run_apprise(as_apprise(address), {"title": "t", "body": "b"}, seconds=2) is None
        assert time.monotonic() - begin < 6


def as_apprise(address: str) -> str:
    """The address of a receiver as apprise writes it."""
    return address.replace("http://", "json://")


def test_apprise_gets_title_and_message(night: Night) -> None:
    inbox = Inbox()
    with http_receiver(inbox) as address, http_receiver(Inbox(), refuse) as closed:
        assert sent(night, apprise=[as_apprise(closed), as_apprise(address)], webhook=address) == [
            ("webhook", True, 1, "answered 204"),
            ("apprise 1", False, 1, "apprise failed; `apprise -vv -b test ADDRESS` says why"),
            ("apprise 2", True, 1, "taken by apprise"),
        ]
    body = inbox.bodies[1]
    assert body["title"].startswith("xmtc-fusion night bad: Regression: ")
    assert (body["type"], body["message"]) == ("failure", str(night))


def test_a_night_is_the_same_if_apprise_fails(site: Site, night: Night) -> None:
    with http_receiver(Inbox(), refuse) as address:
        failed = site.run("not told", nightly__alerts__apprise=as_apprise(address))
    assert failed.exit_code == 10
    assert [problem for problem in failed.problems if problem.startswith("alert: apprise 1: NOT sent, ")]
    (row,) = site.history().deliveries("not told")
    assert (row["channel"], row["delivered"]) == ("apprise 1", False)


@pytest.mark.parametrize("address", ["passwd", "slack://passwd"])
def test_what_apprise_does_not_understand_is_refused_before_any_work(address: str, site: Site) -> None:
    with pytest.raises(ConfigError, match="apprise does not understand address 2 of the list") as refusal:
        site.run("refused", nightly__alerts__apprise=["json://localhost", address])
    assert "passwd" not in str(refusal.value)
    assert "refused" not in {run_id for run_id, _, _ in site.verdicts()}


def test_apprise_is_asked_for_before_any_work(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(SetupError, match=r"pip install '\.\[alerts\]'"):
        site.run("refused", nightly__alerts__apprise="json://localhost")
    assert "refused" not in {run_id for run_id, _, _ in site.verdicts()}


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "http://example.org/hook",
        "ftp://example.org",
        "no address",
        "https://",
        "http://[::1",
        "x",
    ],
)
def test_addresses_that_are_refused_before_any_work(address: str, site: Site) -> None:
    with pytest.raises(ConfigError, match=r"nightly\.alerts\.webhook: ") as refusal:
        site.run("refused", nightly__alerts__webhook=address)
    assert "passwd" not in str(refusal.value)
    assert "refused" not in {run_id for run_id, _, _ in site.verdicts()}


@pytest.mark.parametrize(
    "address", ["https://example.org/x", "http://127.0.0.1:8/x", "http://[::1]:8", "http://localhost"]
)
def test_addresses_that_are_taken(address: str) -> None:
    check_alerts(AlertSettings(webhook=address))
    assert checked_address(address, "x").hostname


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """For 127.0.0.1, signed by nobody."""
    paths = tmp_path / "certificate.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-out",
        paths[0],
        "-keyout",
        paths[1],
    ]
    subprocess.run([*map(str, words), *subject], check=True, capture_output=True)
    return paths


def test_encrypted_and_only_to_whom_it_may_concern(
    night: Night, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"https://127.0.0.1:{server.server_port}/hook"
        answer = post(checked_address(address, "x"), b"{}", {}, seconds=9)
        assert not answer.delivered and "certificate verify failed" in answer.detail.lower().replace("_", " ")
        assert got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert sent(night, webhook=address) == [("webhook", True, 1, "answered 200")]
        assert len(got) == 1
    finally:
        server.shutdown()
        server.server_close()


def test_junit(night: Night, tmp_path: Path) -> None:
    path = tmp_path / "sub" / "junit.xml"
    assert sent(night, junit=str(path)) == [("junit", True, 1, str(path))]
    suite = ElementTree.parse(path).getroot()
    fallen = [case.attrib["name"] for case in suite if case.find("failure") is not None]
    assert len(fallen) == len(night["sample"].fallen) == int(suite.attrib["failures"])
    assert (suite.attrib["errors"], int(suite.attrib["tests"])) == ("1", len(list(suite)))
    (error,) = [case.find("error") for case in suite if case.find("error") is not None]
    assert error is not None and error.attrib["type"] == "missing dataset"


def test_a_file_that_cannot_be_written_is_a_problem_beside_the_verdict(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    night = site.run("later", nightly__alerts__junit=str(tmp_path / "file" / "junit.xml"))
    assert night.exit_code == 10
    assert any(problem.startswith("alert: junit: NOT sent") for problem in night.problems)


def test_deliveries_are_recorded(site: Site) -> None:
    inbox = Inbox()
    with http_receiver(inbox) as address:
        night = site.run("recorded", nightly__alerts__webhook=address)
    (row,) = site.history().deliveries("recorded")
    assert (row["channel"], row["delivered"], row["tries"], row["attempt"]) == ("webhook", True, 1, night.attempt)
    assert row["delivery"] == inbox.bodies[0]["delivery"]
