"""Settings of alerts: who is told about a night. Addresses are secrets."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from jobs.settings import Section
from jobs.settings.secrets import Secret


class AlertSettings(Section):
    """Where the outcome of a night goes."""

    when: Literal["alarm", "always"] = "alarm"
    webhook: Secret | None = None
    apprise: list[Secret] = Field(default_factory=list)
    junit: str | None = None

    @field_validator("apprise", mode="before")
    @classmethod
    def _one(cls, urls: object) -> object:
        """A single address stands for a list of one; it may hold commas, so it is not split."""
        return [urls] if isinstance(urls, str) else urls
