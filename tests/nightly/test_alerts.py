"""Alerts against real receivers on loopback: what they get, what counts as delivered, and how long it may take."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from email import message_from_bytes
from email.policy import default
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, LoginPassword
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from fusion.errors import ConfigError
from jobs.monitoring.alerts import check_alerts, send_alerts
from jobs.monitoring.http_post import checked_address
from jobs.monitoring.night_verdict import message, summary_of
from jobs.nightly import Night
from jobs.settings.alerts import AlertSettings
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
    deliveries = send_alerts(alerts, summary_of(night), message(night), "place/bad/2")
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


def test_slack_and_teams(night: Night) -> None:
    inbox = Inbox()
    with http_receiver(inbox) as address:
        assert [made[:2] for made in sent(night, slack=address, teams=address)] == [("slack", True), ("teams", True)]
    slack, teams = inbox.bodies
    assert slack["text"].startswith("Night bad: Regression: ")
    assert slack["blocks"][0]["type"] == "header"
    code = slack["blocks"][1]["text"]["text"]
    assert code.startswith("```night bad: exit code 10") and code.count("```") == 2 and len(code) <= 3000
    assert "gone &lt;&amp;&gt;" in code
    card = teams["attachments"][0]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["content"]["type"], card["content"]["version"]) == ("AdaptiveCard", "1.4")
    assert card["content"]["body"][0]["color"] == "attention"
    assert "fell from" in card["content"]["body"][1]["text"]


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
        assert sent(night, webhook=address, tries=2) == [("webhook", False, 2, "answered 503")]
    with http_receiver(Inbox(), refuse) as address:
        assert sent(night, webhook=address) == [("webhook", False, 1, "answered 403")]


def test_a_slow_server_does_not_hold_the_night(night: Night) -> None:
    """Every byte in time, but not the whole."""
    with http_receiver(Inbox(), slowly) as address:
        begin = time.monotonic()
        (made,) = sent(night, webhook=address, seconds=1.0, tries=5)
        assert time.monotonic() - begin < 3
    assert not made[1]
    assert made[3].startswith("no answer within")


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
    check_alerts(AlertSettings(webhook=address, slack=address))
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
        (made,) = sent(night, webhook=address, tries=1)
        assert not made[1] and "certificate verify failed" in made[3].lower().replace("_", " ")
        assert got == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert sent(night, webhook=address) == [("webhook", True, 1, "answered 200")]
        assert len(got) == 1
    finally:
        server.shutdown()
        server.server_close()


class Letters:
    """What a mail server has taken."""

    def __init__(self) -> None:
        self.letters: list[Any] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        self.letters.append((envelope.rcpt_tos, message_from_bytes(envelope.content, policy=default)))
        return "250 OK"


@pytest.fixture
def mail_server(certificate: tuple[Path, Path]) -> Iterator[tuple[Letters, int]]:
    """A mail server that wants STARTTLS and a password."""
    letters = Letters()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def authenticator(server: Any, session: Any, envelope: Any, mechanism: str, login: Any) -> AuthResult:
        known = isinstance(login, LoginPassword) and login.password == b"hunter2"
        return AuthResult(success=known, handled=False)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    controller = Controller(
        letters,
        hostname="127.0.0.1",
        port=port,
        tls_context=context,
        require_starttls=True,
        authenticator=authenticator,
        auth_required=True,
    )
    controller.start()
    try:
        yield letters, port
    finally:
        controller.stop()


def test_mail(
    night: Night,
    mail_server: tuple[Letters, int],
    certificate: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    letters, port = mail_server
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    monkeypatch.setenv("MAIL_PASSWORD", "hunter2")
    mail = {"server": "127.0.0.1", "port": port, "user": "night", "recipients": "a@example.org, b@example.org"}
    assert sent(night, mail={**mail, "password": "env:MAIL_PASSWORD"}) == [("mail", True, 1, "taken by 127.0.0.1")]
    ((recipients, letter),) = letters.letters
    assert recipients == ["a@example.org", "b@example.org"]
    assert letter["Subject"].startswith("xmtc-fusion night bad: Regression: ")
    assert "fell from" in letter.get_content()
    (made,) = sent(night, mail={**mail, "password": "wrong"})
    assert made[1] is False and "SMTPAuthenticationError" in made[3] and "wrong" not in made[3]
    (made,) = sent(night, mail={**mail, "server": "127.0.0.1", "port": 9, "password": "wrong"})
    assert made[1] is False


def test_files_for_other_programs(night: Night, tmp_path: Path) -> None:
    files = {name: str(tmp_path / "sub" / name) for name in ("junit", "prometheus", "openmetrics")}
    assert [made[:2] for made in sent(night, **files)] == [(name, True) for name in files]
    suite = ElementTree.parse(files["junit"]).getroot()
    fallen = [case.attrib["name"] for case in suite if case.find("failure") is not None]
    assert len(fallen) == len(night.fallen) == int(suite.attrib["failures"])
    assert (suite.attrib["errors"], int(suite.attrib["tests"])) == ("1", len(list(suite)))
    (error,) = [case.find("error") for case in suite if case.find("error") is not None]
    assert error is not None and error.attrib["type"] == "missing dataset"
    for name, families in (("prometheus", prometheus_families), ("openmetrics", openmetrics_families)):
        metrics = {family.name: family.samples for family in families(Path(files[name]).read_text())}
        assert metrics["xmtc_fusion_night_exit_code"][0].value == 10
        verdicts = {
            (sample.labels["dataset"], sample.labels["verdict"])
            for sample in metrics["xmtc_fusion_dataset_verdict"]
            if sample.value
        }
        assert verdicts == {("sample", "regression"), ("gone <&>", "missing dataset")}
        figures = {tuple(sample.labels.values()): sample.value for sample in metrics["xmtc_fusion_figure"]}
        assert figures["sample", "tail", "ndcg", "10", "zmuv", "combmnz"] == pytest.approx(
            next(
                row["mean"]
                for row in night.figures["sample"]
                if row["fusion"] == "combmnz" and row["label_group"] == "tail"
            )
        )


def test_a_file_that_cannot_be_written_is_a_problem_beside_the_verdict(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    night = site.run("later", nightly__alerts__junit=str(tmp_path / "file" / "junit.xml"))
    assert night.exit_code == 10
    assert any(problem.startswith("alert: junit: NOT sent") for problem in night.problems)


def test_deliveries_are_recorded(site: Site) -> None:
    inbox = Inbox()
    with http_receiver(inbox) as address:
        night = site.run("recorded", nightly__webhook=address)
    (row,) = site.history().deliveries("recorded")
    assert (row["channel"], row["delivered"], row["tries"], row["attempt"]) == ("webhook", True, 1, night.attempt)
    assert row["delivery"] == inbox.bodies[0]["delivery"]
