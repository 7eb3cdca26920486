"""Endpoint and credentials of object stores: found on the driver, and handed to the workers of its tasks.

The driver collects them from the settings, from Spark's configuration and from the environment. Workers get them as a
property of their task, whose name makes Spark hide it in its pages and event logs; without one they look in their own
environment.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace

TASK_PROPERTY = "spark.xmtc_fusion.storage.secrets"
"""Spark hides what has `secret` in its name."""
ENVIRONMENT = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key": ("AWS_ACCESS_KEY_ID",),
    "secret_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
    "azure_account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "azure_sas_token": ("AZURE_STORAGE_SAS_TOKEN",),
    "gcs_endpoint": ("STORAGE_EMULATOR_HOST",),
}
"""The variables that the tools of each store read. Profiles, roles and service accounts are left to the clients."""
HADOOP = {
    "endpoint": "fs.s3a.endpoint",
    "region": "fs.s3a.endpoint.region",
    "access_key": "fs.s3a.access.key",
    "secret_key": "fs.s3a.secret.key",
    "session_token": "fs.s3a.session.token",
}
"""The same for Spark's client of S3."""


@dataclass(frozen=True)
class StoreAccess:
    """How stores are reached. None: the client of the store finds it out by itself."""

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    azure_account_key: str | None = field(default=None, repr=False)
    azure_sas_token: str | None = field(default=None, repr=False)
    gcs_endpoint: str | None = None
    attempts: int = 6
    """How often an operation that fails for the moment is tried."""

    def over(self, other: StoreAccess) -> StoreAccess:
        """This one, completed by another. Keys come together: half of a pair belongs to nobody."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        if given.keys() & {"access_key", "secret_key"}:
            other = replace(other, access_key=None, secret_key=None, session_token=None)
        return replace(other, **given)

    @property
    def hadoop(self) -> dict[str, str]:
        """The settings of Spark's client of S3."""
        settings = {key: value for name, key in HADOOP.items() if (value := getattr(self, name)) is not None}
        if self.endpoint is not None:
            settings["fs.s3a.path.style.access"] = "true"
            settings["fs.s3a.connection.ssl.enabled"] = str(not self.endpoint.startswith("http://")).lower()
        return settings

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_environment(environment: Mapping[str, str]) -> StoreAccess:
    """What the variables of the stores' own tools say."""
    given = {
        name: next((environment[variable] for variable in variables if environment.get(variable)), None)
        for name, variables in ENVIRONMENT.items()
    }
    return StoreAccess(**given)  # type: ignore[arg-type]


def from_hadoop(conf: Mapping[str, object]) -> StoreAccess:
    """What `fs.s3a.*` and `fs.azure.*` say, with or without Spark's prefix."""
    bare = {key.removeprefix("spark.hadoop."): str(value) for key, value in conf.items()}
    given = {name: bare.get(key) for name, key in HADOOP.items()}
    for key, value in bare.items():
        if key.startswith("fs.azure.account.key"):
            given["azure_account_key"] = value
    return StoreAccess(**given)  # type: ignore[arg-type]


_configured: StoreAccess | None = None


def configure(access: StoreAccess) -> None:
    """Use these in this process, before what the environment says."""
    global _configured
    _configured = access


def current_access() -> StoreAccess:
    """The access of this process: what was configured, what came with the task, what the environment says."""
    from_driver = _configured or _of_task()
    own = from_environment(os.environ)
    return own if from_driver is None else from_driver.over(own)


def _of_task() -> StoreAccess | None:
    """What the driver sent with the task, where this process is a worker of Spark."""
    pyspark = sys.modules.get("pyspark")
    context = None if pyspark is None else pyspark.TaskContext.get()
    sent = None if context is None else context.getLocalProperty(TASK_PROPERTY)
    if not sent:
        return None
    known = {item.name for item in fields(StoreAccess)}
    return StoreAccess(**{name: value for name, value in json.loads(sent).items() if name in known})
