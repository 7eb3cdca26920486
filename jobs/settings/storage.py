"""How object stores are reached, where the environment does not say it."""

from __future__ import annotations

from pydantic import Field

from jobs.settings import Section
from jobs.settings.secrets import Secret


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
