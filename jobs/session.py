"""The Spark session of a job: the one that exists, or a new one."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from jobs.java import ensure_java
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
    "spark.ui.showConsoleProgress": "false",
}
"""What a session on one machine is made with. A cluster's settings are spark-submit's."""


def get_session(settings: SparkSettings) -> SparkSession:
    """The active session (a notebook's, for instance), or one made by the settings."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if settings.remote is not None:
        return _configured(SparkSession.builder.remote(settings.remote), settings.conf)

    # Workers must be the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which has set up everything else
        return _configured(SparkSession.builder, settings.conf)
    ensure_java()
    master = settings.master or "local[*]"
    defaults = LOCAL if master.startswith("local") else {}
    return _configured(SparkSession.builder.master(master), {**defaults, **settings.conf})


def _configured(builder: SparkSession.Builder, conf: dict[str, str | int | float | bool]) -> SparkSession:
    for key, value in conf.items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    return builder.getOrCreate()
