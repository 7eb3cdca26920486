"""The Spark session of a job: the one that exists, or a new one."""

from __future__ import annotations

import os
import socket
import sys
from urllib.parse import urlsplit

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession

from fusion.errors import SetupError
from jobs.runtime.java import ensure_java
from jobs.settings import SparkSettings

LOCAL = {
    "spark.app.name": "xmtc-fusion",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # What fails is raised, and told once; the log would only repeat it with its stack.
    "spark.log.level": "FATAL",
    # Beyond a few, partitions of small data only cost.
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    # A bar for what takes long, where somebody is looking.
    "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
}
"""What a session on one machine is made with. A cluster's settings are spark-submit's."""

CONNECT_PORT = 15002
"""Where Spark Connect servers listen unless told otherwise."""


def get_session(settings: SparkSettings) -> SparkSession:
    """The active session (a notebook's, for instance), or one made by the settings."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:  # a job there, whose session is made without being asked how
        return _configured(SparkSession.builder, settings.conf)
    remote = settings.remote or os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return _remote_session(remote, settings)

    # Workers must be the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which has set up everything else
        return _configured(SparkSession.builder, settings.conf)
    ensure_java()
    master = settings.master or "local[*]"
    defaults = LOCAL if master.startswith("local") else {}
    return _configured(SparkSession.builder.master(master), {**defaults, **settings.conf})


def _remote_session(address: str, settings: SparkSettings) -> SparkSession:
    """A session of a Spark Connect server."""
    place = urlsplit(address)
    # Spark's client would go on asking for ten minutes, silently. Behind a proxy only that client knows the way.
    if not any(name.lower().endswith("_proxy") and value for name, value in os.environ.items()):
        try:
            socket.create_connection((place.hostname or "", place.port or CONNECT_PORT), timeout=20).close()
        except OSError as error:
            raise SetupError(
                f"no Spark Connect server answers at {address.split(';')[0]} ({error}): check spark.remote, "
                "and that the server is running and may be reached from here"
            ) from None
    try:
        return _configured(SparkSession.builder.remote(address), settings.conf)
    except PySparkImportError as error:
        raise SetupError(f"{str(error).rstrip('.')}. For Spark Connect: pip install 'xmtc-fusion[connect]'") from None


def _configured(builder: SparkSession.Builder, conf: dict[str, str | int | float | bool]) -> SparkSession:
    for key, value in conf.items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    return builder.getOrCreate()
