"""The Spark session of a job: the one that exists, or a new one."""

from __future__ import annotations

import os
import socket
import sys
import time
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.errors import PySparkImportError
from pyspark.sql import SparkSession

from fusion.errors import SetupError
from jobs.engines.credentials import share_access, without_secrets
from jobs.runtime.log import duration_text, log
from jobs.runtime.machine import ensure_java, own_code, quiet_java
from jobs.settings.base import SparkSettings

LOCAL: dict[str, str | int | float | bool] = {
    "spark.app.name": "xmtc-fusion",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    # Beyond a few, partitions of small data only cost.
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.enabled": "false",
    # It would write over the jobs' own lines about progress.
    "spark.ui.showConsoleProgress": "false",
}
"""What a session on one machine is made with. A cluster's settings are spark-submit's."""

JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java's better compiler takes longer than a few minutes of small jobs gain by it, and so do threads that collect
garbage beside them."""

CONNECT_PORT = 15002
"""Where Spark Connect servers listen by default."""


def get_session(settings: SparkSettings) -> SparkSession:
    """The active session (a notebook's, for instance), or one made by the settings."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:  # a job there, where the platform decides how sessions are made
        return _configured(SparkSession.builder, settings.conf)
    remote = settings.remote or os.environ.get("SPARK_REMOTE")
    if remote is not None:
        return _remote_session(remote, settings)

    # Workers must be the Python that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit, which has set up everything else
        return _configured(SparkSession.builder, {**_own_modules(), **settings.conf})
    ensure_java()
    master = settings.master or "local[*]"
    if not master.startswith("local"):
        return _configured(SparkSession.builder.master(master), settings.conf)
    quiet_java()
    begin = time.monotonic()
    conf = {**LOCAL, **_java_options(settings.quick_java), **_own_modules(), **settings.conf}
    session = _configured(SparkSession.builder.master(master), conf)
    log(f"Spark {session.version} started on this machine ({master}) in {duration_text(time.monotonic() - begin)}")
    return session


def _own_modules() -> dict[str, str]:
    """The option that keeps workers from importing a package called like one of ours out of the current folder, where
    Spark starts them on one machine (Python 3.11 or newer obeys it)."""
    place = Path(__file__).parents[2]
    here = own_code(place, [str(Path.cwd()), str(place)], {})
    return {} if here.state == "ok" else {"spark.executorEnv.PYTHONSAFEPATH": "1"}


def _java_options(quick: bool) -> dict[str, str]:
    """What Java is started with, and how Spark logs: by our configuration, unless the user has a folder of Spark's."""
    options, conf = [QUICK_JAVA] if quick else [], {}
    place = files("jobs.engines").joinpath("log4j2.properties")
    # Out of a zip archive, Java could not read it.
    if "SPARK_CONF_DIR" in os.environ or not isinstance(place, Path):
        conf["spark.log.level"] = "FATAL"
    else:
        options.append(f"-Dlog4j2.configurationFile={place.absolute().as_uri()}")
    return conf | ({JAVA_OPTIONS: " ".join(options)} if options else {})


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
        raise SetupError(f"{str(error).rstrip('.')}. For Spark Connect: pip install '.[connect]'") from None


def _configured(builder: SparkSession.Builder, conf: dict[str, str | int | float | bool]) -> SparkSession:
    for key, value in without_secrets(conf).items():
        builder = builder.config(key, str(value).lower() if isinstance(value, bool) else str(value))
    session = builder.getOrCreate()
    share_access(session, conf)
    return session
