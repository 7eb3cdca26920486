"""Alerts: a night's outcome sent to whoever should know, in the form they read."""

from __future__ import annotations

import json
import smtplib
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from typing import Any, NamedTuple

from fusion.errors import XmtcError
from jobs.monitoring.alert_forms import junit, openmetrics, prometheus, slack, teams
from jobs.monitoring.http_post import Answer, checked_address, post_until
from jobs.monitoring.small_files import write_file
from jobs.runtime.log import log
from jobs.settings.alerts import AlertSettings, MailSettings
from jobs.settings.secrets import Secret

Summary = dict[str, Any]
FORMS: dict[str, Callable[[Summary, str], Summary]] = {
    "webhook": lambda summary, message: {**summary, "message": message},
    "slack": slack,
    "teams": teams,
}
FILES: dict[str, Callable[[Summary], str]] = {"junit": junit, "prometheus": prometheus, "openmetrics": openmetrics}
"""What other programs pick up. They are written every night, since a file that is missing says nothing."""


class Delivery(NamedTuple):
    """What became of one alert."""

    channel: str
    delivery: str
    """The same for every try, so that a receiver can tell an alert that it has already."""
    delivered: bool
    tries: int
    detail: str

    def __str__(self) -> str:
        return f"{self.channel}: {'sent' if self.delivered else 'NOT sent'}, {self.detail}"


def check_alerts(settings: AlertSettings) -> None:
    """Refuse addresses that cannot be right before any work is done. What the environment lacks is found out now."""
    for channel in FORMS:
        secret: Secret | None = getattr(settings, channel)
        if secret is not None:
            checked_address(secret.reveal(), f"nightly.alerts.{channel}")
    if settings.mail.password is not None:
        settings.mail.password.reveal()


def send_alerts(settings: AlertSettings, summary: Summary, message: str, night: str) -> list[Delivery]:
    """Tell everybody who should know. `night` names the attempt. Nothing that goes wrong here is raised."""
    deliveries = []
    if summary["exit_code"] or settings.when == "always":
        for channel, send in _channels(settings, summary, message):
            delivery = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{night}/{channel}"))
            deliveries.append(_attempted(channel, delivery, send))
    for name, form in FILES.items():
        path: str | None = getattr(settings, name)
        if path is not None:
            deliveries.append(_attempted(name, "", _file_writer(path, form, summary)))
    for delivery_made in deliveries:
        log(str(delivery_made))
    return deliveries


Send = Callable[[str], tuple[Answer, int]]


def _attempted(channel: str, delivery: str, send: Send) -> Delivery:
    try:
        answer, tries = send(delivery)
    except XmtcError as error:
        answer, tries = Answer(False, str(error)), 0
    except Exception as error:
        # Its words may hold an address or a password.
        answer, tries = Answer(False, type(error).__name__), 1
    return Delivery(channel, delivery, answer.delivered, tries, answer.detail)


def _channels(settings: AlertSettings, summary: Summary, message: str) -> Iterator[tuple[str, Send]]:
    for channel, form in FORMS.items():
        secret: Secret | None = getattr(settings, channel)
        if secret is not None:
            yield channel, _poster(settings, channel, secret, form(summary, message))
    if settings.mail.server is not None and settings.mail.recipients:
        yield "mail", _mailer(settings, summary, message)


def _poster(settings: AlertSettings, channel: str, secret: Secret, payload: Summary) -> Send:
    def send(delivery: str) -> tuple[Answer, int]:
        place = checked_address(secret.reveal(), f"nightly.alerts.{channel}")
        content = {**payload, "delivery": delivery} if channel == "webhook" else payload
        headers = {"Content-Type": "application/json", "Idempotency-Key": delivery, "User-Agent": "xmtc-fusion"}
        body = json.dumps(content, allow_nan=False).encode()
        return post_until(place, body, headers, settings.seconds, settings.tries)

    return send


def _file_writer(path: str, form: Callable[[Summary], str], summary: Summary) -> Send:
    def write(delivery: str) -> tuple[Answer, int]:
        write_file(path, form(summary).encode())
        return Answer(True, path), 1

    return write


def _mailer(settings: AlertSettings, summary: Summary, message: str) -> Send:
    def send(delivery: str) -> tuple[Answer, int]:
        letter = EmailMessage()
        letter["Subject"] = f"xmtc-fusion night {summary['run_id']}: {summary['headline']}"[:200]
        letter["From"], letter["To"] = settings.mail.sender, ", ".join(settings.mail.recipients)
        letter["Message-ID"] = f"<{delivery}@xmtc-fusion>"
        letter.set_content(message)
        answers: list[Answer] = []
        thread = threading.Thread(
            target=lambda: answers.append(_mailed(settings.mail, letter, settings.seconds)), daemon=True
        )
        thread.start()
        thread.join(settings.seconds)
        return (answers[0] if answers else Answer(False, f"no answer within {settings.seconds:g} s")), 1

    return send


def _mailed(mail: MailSettings, letter: EmailMessage, seconds: float) -> Answer:
    try:
        if mail.security == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(
                mail.server or "", mail.port, timeout=seconds, context=ssl.create_default_context()
            )
        else:
            server = smtplib.SMTP(mail.server or "", mail.port, timeout=seconds)
        with server:
            if mail.security == "starttls":
                server.starttls(context=ssl.create_default_context())
            if mail.user is not None and mail.password is not None:
                server.login(mail.user, mail.password.reveal())
            refused = server.send_message(letter)
    except (OSError, smtplib.SMTPException) as error:
        return Answer(False, f"{type(error).__name__} from {mail.server}")
    return Answer(not refused, f"refused: {', '.join(refused)}" if refused else f"taken by {mail.server}")
