"""Settings of alerts: who is told about a night, and in which form."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from jobs.settings import Section
from jobs.settings.secrets import Secret


class MailSettings(Section):
    """E-mail by SMTP."""

    server: str | None = None
    port: int = Field(587, ge=1, le=65_535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password: Secret | None = None
    sender: str = "xmtc-fusion@localhost"
    recipients: list[str] = Field(default_factory=list)

    @field_validator("recipients", mode="before")
    @classmethod
    def _split(cls, names: object) -> object:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


class AlertSettings(Section):
    """Where the outcome of a night goes."""

    when: Literal["alarm", "always"] = "alarm"
    webhook: Secret | None = None
    slack: Secret | None = None
    teams: Secret | None = None
    mail: MailSettings = MailSettings()
    seconds: float = Field(30, gt=0)
    tries: int = Field(3, ge=1, le=20)
    junit: str | None = None
    prometheus: str | None = None
    openmetrics: str | None = None
