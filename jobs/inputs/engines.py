"""Which engine does the work: in this process for small data, on Spark for everything else."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from fusion.errors import ConfigError, InputError
from jobs.inputs.lists import ListRows
from jobs.inputs.local import LocalTables
from jobs.inputs.plans import Plan
from jobs.inputs.sources import Source, Sources, source_format
from jobs.inputs.tables import Tables
from jobs.runtime.log import log
from jobs.storage.versions import resolve
from udfs.counter import COUNTS, add_counts
from udfs.local import run_local
from udfs.stores.addresses import local_folder
from udfs.stores.objects import files_below
from udfs.texts import Work

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


class Engine(Protocol):
    """Reads the inputs as tables of its kind, and runs the kernel over their list rows."""

    name: str

    @property
    def tables(self) -> Tables[Any]: ...

    def counts(self, lists: ListRows[Any], plan: Plan, work: Work) -> pa.Table:
        """The counts of all texts, added up by fold and part."""

    def rows(self, lists: ListRows[Any], plan: Plan, work: Work, schema: str) -> Any:
        """The rows of `work`, as a table of the engine's kind; `schema` as Spark writes it."""

    def collected(self, lists: ListRows[Any], keep: Callable[[pa.RecordBatch], pa.RecordBatch]) -> pa.Table:
        """The list rows that `keep` leaves of every batch, in this process; few enough to fit."""


class LocalEngine:
    """In this process, one thread per core."""

    name = LOCAL
    tables = LocalTables()

    def counts(self, lists: ListRows[pa.Table], plan: Plan, work: Work) -> pa.Table:
        counted = self.rows(lists, plan, work)
        keys = dict.fromkeys(zip(*(counted[name].to_pylist() for name in COUNTS), strict=True))
        return pa.concat_tables([add_counts(_having(counted, key)) for key in keys])

    def rows(self, lists: ListRows[pa.Table], plan: Plan, work: Work, schema: str = "") -> pa.Table:
        return pa.Table.from_batches(run_local(lists.rows, lists.layout, work, len(plan.grid.columns)))

    def collected(self, lists: ListRows[pa.Table], keep: Callable[[pa.RecordBatch], pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(map(keep, lists.rows.to_batches()), lists.rows.schema)


def _having(counted: pa.Table, key: Sequence[Any]) -> pa.Table:
    wanted = [list(row) == list(key) for row in zip(*(counted[name].to_pylist() for name in COUNTS), strict=True)]
    return counted.filter(pa.array(wanted))


def choose_engine(config: Config, sources: Sources, spark: SparkSession | None = None) -> Engine:
    """The engine that `grid.engine` names. `auto` stands for `local` where nothing asks for Spark."""
    name = config.grid.engine
    reason = spark_reason(config, sources, spark)
    if name == LOCAL and (unreadable := next(filter(None, map(_not_local, sources.all())), None)):
        raise ConfigError(f"grid.engine is local, but {unreadable}: use arrays, windows or auto")
    if name == LOCAL or (name == "auto" and reason is None):
        log("engine: local, in this process" if name == "auto" else "engine: local")
        return LocalEngine()
    from jobs.engines.session import get_session
    from jobs.inputs.spark_engine import SparkEngine

    if name == "auto":
        log(f"engine: arrays, on Spark, since {reason}")
    on_spark = spark or get_session(config.spark)
    return SparkEngine(on_spark, "windows" if name == "windows" else "arrays", config.spark.partitions)


def spark_reason(config: Config, sources: Sources, spark: SparkSession | None) -> str | None:
    """Why Spark does the work if nobody says what should; None if this process can do it."""
    if spark is not None:
        return "a session is given"
    for setting in ("master", "remote"):
        if getattr(config.spark, setting) is not None:
            return f"spark.{setting} is set"
    places = [source for source in sources.all() if isinstance(source, str)]
    for variable, reason in SUBMITTED.items():
        if places and variable in os.environ:
            return reason
    elsewhere = next(filter(None, map(_elsewhere, sources.all())), None)
    if elsewhere is not None:
        return elsewhere
    size, limit = sum(map(_size, places)), config.grid.local_limit
    if size <= limit * 1e6:
        return None
    return f"the inputs have {size / 1e6:,.0f} MB, more than {limit:,} (grid.local_limit)"


def _not_local(source: Source) -> str | None:
    """Why this process cannot read a source, None if it can."""
    if isinstance(source, pa.Table):
        return None
    if not isinstance(source, str):
        return "an input is a Spark DataFrame"
    return f"{source} is a catalog table" if source_format(source)[0] == "table" else None


def _elsewhere(source: Source) -> str | None:
    """Why this process should not read a source unless it is told to, None if it may as well."""
    stored = isinstance(source, str) and local_folder(source_format(source)[1]) is None
    return _not_local(source) or (f"{source} is not on this machine" if stored else None)


def _size(source: str) -> int:
    try:
        files = files_below(resolve(source_format(source)[1]))
    except OSError as error:
        raise InputError(f"cannot read {source}: {error}") from None
    if not files:
        raise InputError(f"{source} does not exist")
    return sum(listed.size for listed in files)
