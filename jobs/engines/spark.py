"""The engine on Spark: rows stay where they are, and steps go to them as `mapInArrow`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError, XmtcError
from jobs.engines.catalog import CatalogTable
from jobs.engines.engine import Done, Written
from jobs.engines.errors import carried, spark_errors, spark_reason, step_errors
from jobs.engines.progress import spark_progress
from jobs.storage.versions import resolve
from udfs.columns import Among, Band, Columns, Constant, Place, Single, Value
from udfs.steps import (
    AS_SPARK_READS_UINT64,
    Batches,
    Step,
    plain_type,
    plain_types,
    set_modules_aside,
    spark_schema,
    spark_type,
)
from udfs.stores.addresses import for_spark
from udfs.stores.objects import delete_folder

VERIFIED = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
"""Damaged and lost files are errors, whatever the cluster's settings say."""
UNORDERED = ".unordered"
"""How the folder ends whose rows are still to be sorted."""


class SparkEngine:
    """Runs steps in Spark's Python workers."""

    def __init__(self, spark: SparkSession, partitions: int | None = None, name: str = "arrays") -> None:
        """`name`: how list rows reach the kernel, `arrays` or `windows`; all else is the same."""
        self.spark, self.name = spark, name
        self.asked = partitions
        """The number of partitions that was asked for, if one was."""
        self._read: dict[str, DataFrame] = {}
        number = str(partitions or spark.conf.get("spark.sql.shuffle.partitions"))
        # Some platforms say `auto`.
        self.partitions = int(number) if number.isdigit() else None

    @property
    def about(self) -> dict[str, Any]:
        return {"name": self.name, "spark": self.spark.version, "partitions": self.partitions}

    @property
    def workers(self) -> int:
        return self.partitions or 64

    def read(self, source: Any, columns: Sequence[str] | None = None, keep: bool = False) -> DataFrame:
        if isinstance(source, DataFrame):
            table = source
        elif not isinstance(source, str):
            table = self.spark.createDataFrame(plain_types(source))
        elif keep and source in self._read:
            table = self._read[source]
        else:
            # Spark lists the files and starts a job that reads a schema, which once is enough.
            table = self._read[source] = self._table(source)
        if unsigned := dict(_unsigned(table)):
            table = table.withColumns({name: F.col(f"`{name}`").cast(kind) for name, kind in unsigned.items()})
        return table if columns is None else table.select(*(f"`{name}`" for name in columns))

    def _table(self, source: str) -> DataFrame:
        catalog = source.removeprefix("table:")
        try:
            table = (
                self.spark.table(catalog)
                if catalog != source
                else self.spark.read.options(**VERIFIED).parquet(for_spark(resolve(source)))
            )
            _ = table.columns
        except spark_errors() as error:
            raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
        return table

    def files(self, splits: pa.Table, step: Step, done: Done | None = None, keep: bool = False) -> DataFrame:
        numbered = splits.append_column("split", pa.array(range(len(splits)), pa.int64()))
        # A range for each row: a hash would put several into one partition and leave others empty.
        rows = self.spark.createDataFrame(numbered).repartitionByRange(max(1, len(splits)), "split").drop("split")
        return rows.mapInArrow(_each_row(step), spark_schema(step.schema))

    def select(self, rows: DataFrame, columns: Columns, where: Sequence[Among] = ()) -> DataFrame:
        for among in where:
            held = F.col(f"`{among.column}`")
            inside = held.isin(list(among.values))
            rows = rows.where(inside | held.isNull() if among.nulls else inside)
        return rows.select(*(_sql(value).cast(spark_type(kind)).alias(name) for name, (value, kind) in columns.items()))

    def count(self, rows: DataFrame, columns: Sequence[str], most: int | None = None) -> pa.Table:
        with spark_progress(self.spark), step_errors():
            rows = rows.limit(most) if most is not None and not columns else rows
            counted = rows.groupBy(*(f"`{name}`" for name in columns)).agg(F.count("*").alias("rows"))
            return counted.toArrow()

    def map(self, rows: DataFrame, step: Step, done: Done | None = None) -> DataFrame:
        if step.heavy:
            rows = rows.repartition(self.workers)
        return rows.mapInArrow(in_worker(step), spark_schema(step.schema))

    def group(self, rows: DataFrame, keys: Sequence[str], step: Step, order: Sequence[str] = ()) -> DataFrame:
        # Left to itself Spark would merge partitions of few bytes, and cores would stand idle.
        divided = rows.repartition(self.partitions, *keys) if self.partitions else rows.repartition(*keys)
        return divided.sortWithinPartitions(*keys, *order).mapInArrow(in_worker(step), spark_schema(step.schema))

    def union(self, *rows: DataFrame) -> DataFrame:
        return reduce(DataFrame.unionByName, rows)

    def schema(self, rows: DataFrame) -> pa.Schema:
        # A plan without rows, for which Spark starts no job.
        return rows.limit(0).toArrow().schema

    def collect(self, rows: DataFrame) -> pa.Table:
        with spark_progress(self.spark), step_errors():
            return rows.toArrow()

    def held(self, rows: DataFrame) -> DataFrame:
        return rows

    def write(
        self, rows: DataFrame, folder: str, by: Sequence[str] = (), order: Sequence[str] = (), aside: str | None = None
    ) -> Written:
        # Seen on the way to the files, without a second pass.
        seen, place = Observation(), for_spark(folder)
        number = F.count(F.lit(1)).alias("rows")
        with spark_progress(self.spark), step_errors():
            if aside is None:
                written = rows.observe(seen, number)
            else:
                # As text, since Spark 4.0 hands out arrays as objects of Java.
                values = F.to_json(F.collect_set(aside)).alias("aside")
                written = rows.observe(seen, number, values).drop(aside)
            if order:
                # Sorting looks at its rows twice, so it must not be what computes them.
                written.write.parquet(f"{place}{UNORDERED}")
                written = self.spark.read.options(**VERIFIED).parquet(f"{place}{UNORDERED}").orderBy(*by, *order)
            written.write.partitionBy(*by).parquet(place)
        if order:
            delete_folder(f"{folder}{UNORDERED}")
        return Written(int(seen.get["rows"]), json.loads(seen.get["aside"]) if aside else [])

    def output_table(self, name: str, replace: bool) -> CatalogTable:
        return CatalogTable(self.spark, name, replace)


def _unsigned(table: DataFrame) -> Iterator[tuple[str, str]]:
    """The columns of unsigned numbers of 64 bits, or of lists of them, with the types that they get."""
    decimal = spark_type(AS_SPARK_READS_UINT64)
    for name, kind in table.dtypes:
        if kind in (decimal, f"array<{decimal}>"):
            yield name, kind.replace(decimal, spark_type(plain_type(AS_SPARK_READS_UINT64)))


def _sql(value: Value) -> Column:
    """What a column holds, as Spark computes it."""
    if isinstance(value, Constant):
        return F.lit(value.value)
    held = F.col(f"`{value.column}`")
    if isinstance(value, Place):
        return F.array_position(F.array(*map(F.lit, value.values)), held) + (value.first - 1)
    if isinstance(value, Band):
        return F.lit(value.first) - sum(
            (F.coalesce((held >= edge).cast("int"), F.lit(0)) for edge in value.edges), start=F.lit(0)
        )
    return F.array(held) if isinstance(value, Single) else held


def in_worker(step: Step) -> Any:
    """The step, with errors of ours in a form that survives the way to the driver."""

    def run(batches: Batches) -> Batches:
        set_modules_aside()
        try:
            yield from step(batches)
        except XmtcError as error:
            raise RuntimeError(carried(error)) from error

    return run


def _each_row(step: Step) -> Any:
    """The step, called once per row."""
    whole = in_worker(step)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for row in range(batch.num_rows):
                yield from whole(iter([batch.slice(row, 1)]))

    return run
