"""Credentials on their way: from settings and environment to this process, to Spark's client and to its workers.

Spark is told after it has started: what a session is started with stands among the arguments of its process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from jobs.settings.base import SECRET_NAME, Secret
from jobs.settings.config import Config
from jobs.settings.sections import StorageSettings
from jobs.storage.versions import one_view
from udfs.stores.clients import TASK_PROPERTY, StoreAccess, configure, current_access, from_hadoop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")
Conf = dict[str, str | int | float | bool]


def job(run: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """What every job is wrapped in: it reaches stores as its configuration says, and reads every stage in one version
    from beginning to end."""

    @wraps(run)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Returned:
        for value in (*args, *kwargs.values()):
            if isinstance(value, Config):
                configure_storage(value)
        with one_view():
            return run(*args, **kwargs)

    return wrapped


def configure_storage(config: Config) -> None:
    """Reach stores as the settings say, then as Spark's settings say, then as the environment says."""
    configure(_access(config.storage).over(from_hadoop(config.spark.conf)))


def _access(settings: StorageSettings) -> StoreAccess:
    given: dict[str, Any] = {name: getattr(settings, name) for name in StorageSettings.model_fields}
    for name, value in given.items():
        given[name] = value.reveal() if isinstance(value, Secret) else value
    return StoreAccess(**given)


def without_secrets(conf: Conf) -> Conf:
    """The settings that a session may be started with."""
    return {key: value for key, value in conf.items() if not _is_credential(key)}


def _is_credential(key: str) -> bool:
    """Whether a setting is a credential of Hadoop's clients, which they also take from a session that has started."""
    return key.startswith(("spark.hadoop.", "fs.")) and SECRET_NAME.search(key) is not None


def share_access(session: SparkSession, conf: Conf) -> None:
    """Tell a session's client of S3, and the workers of its tasks, how stores are reached."""
    # There the platform gives access, and a session of strangers' settings is refused.
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    for key, value in conf.items():
        if _is_credential(key):
            session.conf.set(key.removeprefix("spark.hadoop."), str(value))
    access = current_access()
    if access.endpoint is not None or access.secret_key is not None:
        for key, setting in access.hadoop.items():
            session.conf.set(key, setting)
    if access != StoreAccess(attempts=access.attempts):
        session.conf.set(TASK_PROPERTY, access.to_json())
