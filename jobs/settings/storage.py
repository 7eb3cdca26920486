"""How object stores are reached, where the environment does not say it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, PlainSerializer, SecretStr

from jobs.settings import Section

Secret = Annotated[SecretStr, PlainSerializer(lambda secret: None, return_type=None, when_used="json")]
"""Printed as asterisks, and left out of every configuration that is written."""


class StorageSettings(Section):
    """Endpoint and credentials, each over what the environment says. Credentials are never written anywhere."""

    endpoint: str | None = None
    region: str | None = None
    access_key: Secret | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    azure_account_key: Secret | None = None
    azure_sas_token: Secret | None = None
    gcs_endpoint: str | None = None
    attempts: int = Field(6, ge=1, le=20)
