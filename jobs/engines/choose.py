"""Which engine does the work: this process for small data, Spark for everything else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fusion.errors import ConfigError, InputError
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.runtime.log import log
from jobs.storage.versions import resolve
from udfs.stores.addresses import local_folder
from udfs.stores.objects import files_below

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.settings.config import Config


LOCAL = "local"
SUBMITTED = {
    "PYSPARK_GATEWAY_PORT": "started by spark-submit",
    "DATABRICKS_RUNTIME_VERSION": "on Databricks",
    "SPARK_REMOTE": "SPARK_REMOTE is set",
}
"""What a user of Spark has in the environment."""


def choose_engine(config: Config, sources: Sequence[Any], spark: SparkSession | None = None) -> Engine[Any]:
    """The engine that `grid.engine` names; `auto` takes this process where nothing asks for Spark. `sources` are what
    it is to read: paths, names of catalog tables after `table:`, and DataFrames; and a catalog table that it is to
    write."""
    if spark is not None and not hasattr(spark, "conf"):
        raise ConfigError(f"spark: expected a session, found {spark!r}; a master is set with spark.master")
    name = config.grid.engine
    reason = why_spark(config, sources, spark)
    if name == LOCAL and (unreadable := next(filter(None, map(_not_local, sources)), None)):
        raise ConfigError(f"grid.engine is local, but {unreadable}: use arrays, windows or auto")
    if name == LOCAL:
        log("engine: local")
        return LocalEngine()
    if name == "auto" and reason is None:
        why = "the inputs are in memory"
        if sources:
            limit = f"{config.grid.local_limit:,} (grid.local_limit)"
            why = f"the inputs have {_megabytes(sources):,.1f} MB, at most {limit}"
        log(f"engine: local, in this process, since {why}")
        return LocalEngine()
    from jobs.engines.session import get_session
    from jobs.engines.spark import SparkEngine

    if name == "auto":
        log(f"engine: arrays, on Spark, since {reason}")
    on_spark = spark or get_session(config.spark)
    return SparkEngine(on_spark, config.spark.partitions, "windows" if name == "windows" else "arrays")


def why_spark(config: Config, sources: Sequence[Any], spark: SparkSession | None) -> str | None:
    """Why Spark does the work if nobody says what should; None if this process can do it."""
    if spark is not None:
        return "a session is given"
    for setting in ("master", "remote"):
        if getattr(config.spark, setting) is not None:
            return f"spark.{setting} is set"
    if not sources:
        return None
    stored = any(isinstance(source, str) for source in sources)
    for variable, reason in SUBMITTED.items():
        if stored and variable in os.environ:
            return reason
    elsewhere = next(filter(None, map(_elsewhere, sources)), None)
    if elsewhere is not None:
        return elsewhere
    size, limit = _megabytes(sources), config.grid.local_limit
    if size <= limit:
        return None
    return f"the inputs have {size:,.0f} MB, more than {limit:,} (grid.local_limit)"


def _megabytes(sources: Sequence[Any]) -> float:
    return sum(_size(source) for source in sources if isinstance(source, str)) / 1e6


def _not_local(source: Any) -> str | None:
    """Why this process cannot read a source, None if it can."""
    if not isinstance(source, str):
        return "an input is a Spark DataFrame"
    return f"{source} is a catalog table" if source.startswith("table:") else None


def _elsewhere(source: Any) -> str | None:
    """Why this process should not read a source unless it is told to, None if it may as well."""
    stored = isinstance(source, str) and local_folder(source) is None
    return _not_local(source) or (f"{source} is not on this machine" if stored else None)


def _size(source: str) -> int:
    try:
        files = files_below(resolve(source))
    except OSError as error:
        raise InputError(f"cannot read {source}: {error}") from None
    if not files:
        raise InputError(f"{source} does not exist")
    return sum(listed.size for listed in files)
