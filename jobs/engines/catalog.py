"""A table of a catalog as the output of a job: whole or not there at all, and replaced only by a table of its kind."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from fusion.errors import ConfigError, OutputError
from jobs.engines.errors import spark_errors, spark_reason, step_errors, unreadable
from jobs.engines.progress import spark_progress

PART = re.compile(r"`((?:[^`]|``)+)`|[^.`]+")
"""A part of a name, in backticks where it has signs of its own."""
IN_ONE_STEP = ("delta", "iceberg")
"""What tables are made of that stay as they are until rows that replace theirs are complete. Others lose their rows
before those that replace them are computed."""


def quoted_parts(name: str) -> list[str]:
    """The parts of a table's name, such as catalog, schema and table, each in backticks."""
    parts = list(PART.finditer(name))
    if not parts or ".".join(part[0] for part in parts) != name:
        raise ConfigError(f"'table:{name}' should be table:catalog.schema.name, table:schema.name or table:name")
    return [part[0] if part[1] else f"`{part[0]}`" for part in parts]


class CatalogTable:
    """A table of Spark's catalog that rows are to be written to."""

    def __init__(self, spark: SparkSession, name: str, replace: bool) -> None:
        self._spark, self._shown, self._replace = spark, f"table:{name}", replace
        *self._schema, self._last = quoted_parts(name)
        self._name = ".".join([*self._schema, self._last])

    def check(self) -> None:
        schema = ".".join(self._schema)
        with self._errors():
            if schema and not self._spark.catalog.databaseExists(schema):
                raise OutputError(
                    f"cannot write {self._shown}: there is no schema {schema}, or you may not use it. Create it, or "
                    "choose another"
                )
            there = self._spark.catalog.tableExists(self._name)
        if there and not self._replace:
            raise OutputError(f"{self._shown} exists already; choose another output, or --mode overwrite to replace it")

    def write(self, rows: DataFrame) -> int:
        with spark_progress(self._spark), self._errors():
            if self._replace and self._spark.catalog.tableExists(self._name):
                self._check_columns(rows)
                self._write_over(rows)
            else:
                rows.write.saveAsTable(self._name)
            return self._spark.table(self._name).count()

    def _check_columns(self, rows: DataFrame) -> None:
        """Refuse to replace what is no table, or one of other columns, which somebody else has made."""
        kind = self._spark.catalog.getTable(self._name).tableType
        if "VIEW" in kind or kind == "TEMPORARY":
            raise OutputError(f"{self._shown} is a view and is left alone: choose another output, or drop it yourself")
        there, ours = self._spark.table(self._name).dtypes, rows.dtypes
        if there != ours:
            columns, wanted = (", ".join(f"{name} {kind}" for name, kind in columns) for columns in (there, ours))
            raise OutputError(
                f"{self._shown} exists already and is left alone: its columns are {columns}, and what would replace it "
                f"has {wanted}. Choose another output, or drop the table yourself"
            )

    def _write_over(self, rows: DataFrame) -> None:
        about = self._spark.sql(f"DESCRIBE TABLE EXTENDED {self._name}").where("col_name = 'Provider'").collect()
        if about and about[0]["data_type"].lower() in IN_ONE_STEP:
            rows.write.mode("overwrite").saveAsTable(self._name)
            return
        aside = ".".join([*self._schema, f"{self._last[:-1]}_new_{uuid.uuid4().hex[:12]}`"])
        rows.write.saveAsTable(aside)
        try:
            self._spark.table(aside).write.mode("overwrite").saveAsTable(self._name)
        except spark_errors() as error:
            raise OutputError(f"cannot replace {self._shown}: {spark_reason(error)}. The rows are in {aside}") from None
        self._spark.sql(f"DROP TABLE {aside}")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """What the catalog refuses is an error that names the table; what goes wrong in workers or with inputs is not
        the table's."""
        try:
            with step_errors():
                yield
        except spark_errors() as error:
            reason = spark_reason(error)
            if isinstance(error, PythonException) or unreadable(reason):
                raise
            raise OutputError(f"cannot write {self._shown}: {reason}") from None
