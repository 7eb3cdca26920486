"""The client of a store, with endpoint and credentials as the driver hands them to the workers.

The driver collects them from the settings, from Spark's configuration and from the environment. Workers get them as a
property of their task, whose name makes Spark hide it in its pages and event logs; without one they look in their own
environment.

The client of a store: pyarrow's where it knows the store, fsspec's where it does not.

What fails for the moment (a time-out, a store that asks to slow down, a connection reset) is tried again, later each
time. What will not get better (no permission, no such bucket) is an error at once.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import fs

from fusion.errors import ConfigError, SetupError
from udfs.stores.addresses import AZURE, FILE, GCS, HDFS, S3, Address

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
        """This one, completed by another. Keys come together: half of a pair is of no use."""
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

    def delta(self, kind: str) -> dict[str, str]:
        """The options of delta-rs for a kind of store. What is not given, it finds out by itself."""
        if kind == AZURE:
            given = {"azure_storage_account_key": self.azure_account_key}
            given["azure_storage_sas_token"] = self.azure_sas_token
        elif kind == S3:
            given = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
            given |= {"aws_session_token": self.session_token, "aws_endpoint_url": self.endpoint}
            given["aws_region"] = self.region or ("us-east-1" if self.endpoint else None)
            given["aws_allow_http"] = "true" if (self.endpoint or "").startswith("http://") else None
            # Two commits of the same version: the store refuses the second one.
            given["conditional_put"] = "etag"
        else:
            given = {}
        return {name: value for name, value in given.items() if value is not None}

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


T = TypeVar("T")
PERMANENT = re.compile(
    r"access.?denied|forbidden|\b403\b|\b401\b|unauthorized|no.?such.?bucket|invalid.?access.?key|signature|"
    r"permission|credential|could not resolve|bucket does not exist|container.?not.?found|account.?not.?found|quota|"
    r"no space left",
    re.IGNORECASE,
)
TRANSIENT = re.compile(
    r"time.?d?.?out|slow.?down|throttl|too many requests|\b429\b|\b50[0234]\b|internal|unavailable|curlcode|"
    r"network|connect|reset|broken pipe|eof|end of file|temporar|partial|busy|request.?expired|in stream|\bi/o\b",
    re.IGNORECASE,
)
FIRST_WAIT, LONGEST_WAIT = 0.2, 8.0
"""Seconds before the second try, and at most before any other."""
PYARROW = int(pa.__version__.partition(".")[0])
ONE_PUT = {"allow_delayed_open": True} if PYARROW >= 21 else {}
"""A small object is one put, where pyarrow can do so; earlier versions take three requests; the last one counts."""


class StoreError(OSError):
    """Raised when a store refuses, or has failed too often: which place, why, and what to check."""


def file_system(place: Address) -> fs.FileSystem:
    """The client of a place's store."""
    if place.kind == FILE:
        return fs.LocalFileSystem()
    # Objects of S3 are found by bucket, whatever the bucket: one client is enough.
    return _client(place.kind, "" if place.kind in (S3, GCS) else place.host, current_access(), os.getpid())


@lru_cache(maxsize=16)
def _client(kind: str, host: str, access: StoreAccess, process: int) -> fs.FileSystem:
    """A client of its own for each process: those of a parent do not survive a fork."""
    try:
        if kind == S3:
            return _s3(access)
        if kind == GCS:
            return _gcs(access)
        if kind == AZURE:
            return _azure(host.partition(".")[0], access)
        if kind == HDFS:
            return fs.HadoopFileSystem.from_uri(host)
        return _fsspec(kind)
    except (AttributeError, ImportError) as error:
        remedy = ": install pyarrow from PyPI, whose builds can" if kind in (S3, GCS, AZURE) else ""
        raise SetupError(f"nothing here can open {kind}:// addresses ({error}){remedy}") from None


def _s3(access: StoreAccess) -> fs.FileSystem:
    scheme, _, endpoint = (access.endpoint or "").rpartition("://")
    options: dict[str, Any] = {"region": access.region or ("us-east-1" if endpoint else None)}
    if endpoint:
        options |= {"endpoint_override": endpoint.rstrip("/"), "scheme": scheme or "https"}
    if (access.access_key is None) != (access.secret_key is None):
        raise ConfigError("S3 needs an access key and a secret key together: one of the two is given without the other")
    if access.secret_key is not None:
        options |= {"access_key": access.access_key, "secret_key": access.secret_key}
        options["session_token"] = access.session_token
    retry = fs.AwsStandardS3RetryStrategy(max_attempts=3)
    return fs.S3FileSystem(**options, connect_timeout=5, retry_strategy=retry, **ONE_PUT)


def _gcs(access: StoreAccess) -> fs.FileSystem:
    if access.gcs_endpoint is None:
        return fs.GcsFileSystem()
    scheme, _, endpoint = access.gcs_endpoint.rpartition("://")
    return fs.GcsFileSystem(anonymous=True, scheme=scheme or "http", endpoint_override=endpoint)


def _azure(account: str, access: StoreAccess) -> fs.FileSystem:
    if access.azure_sas_token is None:
        return fs.AzureFileSystem(account, account_key=access.azure_account_key)
    if PYARROW < 20:
        raise SetupError(f"SAS tokens of Azure need pyarrow 20 or newer, and {pa.__version__} is installed")
    return fs.AzureFileSystem(account, account_key=access.azure_account_key, sas_token=access.azure_sas_token)


def _fsspec(scheme: str) -> fs.FileSystem:
    import fsspec

    try:
        return fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem(scheme)))
    except ValueError as error:
        raise ImportError(str(error)) from None


def is_transient(error: BaseException) -> bool:
    """Whether trying again may help."""
    text = str(error)
    if isinstance(error, FileNotFoundError | StoreError) or PERMANENT.search(text):
        return False
    return isinstance(error, ConnectionError | TimeoutError) or TRANSIENT.search(text) is not None


def retried(place: Address, doing: str, action: Callable[[], T]) -> T:
    """The result of an action on a place, tried again while that may help."""
    if place.kind == FILE:
        return action()
    attempts, wait = current_access().attempts, FIRST_WAIT
    for attempt in range(1, attempts + 1):
        try:
            return action()
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            if attempt == attempts or not is_transient(error):
                raise StoreError(_explained(place, doing, error, attempt)) from None
        # Workers that failed together should not come back together.
        time.sleep(wait * random.uniform(0.5, 1.0))
        wait = min(2 * wait, LONGEST_WAIT)
    raise AssertionError("unreachable")


def _explained(place: Address, doing: str, error: BaseException, attempts: int) -> str:
    text = str(error).strip().rstrip(".")
    if isinstance(error, StoreError):
        return text
    if attempts > 1:
        return f"cannot {doing} {place}: {text} ({attempts} attempts); check the network and the endpoint"
    remedy = "check the name of the bucket, the endpoint and the permissions of the credentials (docs/storage.md)"
    return f"cannot {doing} {place}: {text}; {remedy}"
