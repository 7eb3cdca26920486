"""The engine on Spark: rows stay where they are, and steps go to them as `mapInArrow`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import fusion.errors
from fusion.errors import InputError, XmtcError
from jobs.engines.engine import Done
from jobs.engines.errors import SPARK_ERRORS, spark_reason
from udfs.steps import Batches, Step, spark_schema
from udfs.stores.addresses import for_spark

VERIFIED = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
"""Damaged and lost files are errors, whatever the cluster's settings say."""
FAILED, END = "xmtc-error:", ":xmtc-end"
"""What surrounds an error of ours in the message of Spark's error."""


class SparkEngine:
    """Runs steps in Spark's Python workers."""

    name = "spark"

    def __init__(self, spark: SparkSession, partitions: int | None = None) -> None:
        self.spark = spark
        number = str(partitions or spark.conf.get("spark.sql.shuffle.partitions"))
        # Some platforms say `auto`.
        self._partitions = int(number) if number.isdigit() else None

    @property
    def workers(self) -> int:
        return self._partitions or 64

    def read(self, source: Any, columns: Sequence[str] | None = None) -> DataFrame:
        if isinstance(source, str):
            catalog = source.removeprefix("table:")
            try:
                table = (
                    self.spark.table(catalog)
                    if catalog != source
                    else self.spark.read.options(**VERIFIED).parquet(for_spark(source))
                )
                _ = table.columns
            except SPARK_ERRORS as error:
                raise InputError(f"cannot read {source}: {spark_reason(error)}") from None
        else:
            table = source if isinstance(source, DataFrame) else self.spark.createDataFrame(source)
        return table if columns is None else table.select(*(f"`{name}`" for name in columns))

    def files(self, splits: pa.Table, step: Step, done: Done | None = None) -> DataFrame:
        numbered = splits.append_column("split", pa.array(range(len(splits)), pa.int64()))
        # A range for each row: a hash would put several into one partition and leave others empty.
        rows = self.spark.createDataFrame(numbered).repartitionByRange(max(1, len(splits)), "split").drop("split")
        return rows.mapInArrow(_each_row(step), spark_schema(step.schema))

    def map(self, rows: DataFrame, step: Step, done: Done | None = None) -> DataFrame:
        if step.heavy:
            rows = rows.repartition(self.workers)
        return rows.mapInArrow(_in_worker(step), spark_schema(step.schema))

    def group(self, rows: DataFrame, keys: Sequence[str], step: Step, order: Sequence[str] = ()) -> DataFrame:
        # Left to itself Spark would merge partitions of few bytes, and cores would stand idle.
        divided = rows.repartition(self._partitions, *keys) if self._partitions else rows.repartition(*keys)
        return divided.sortWithinPartitions(*keys, *order).mapInArrow(_in_worker(step), spark_schema(step.schema))

    def union(self, *rows: DataFrame) -> DataFrame:
        return reduce(DataFrame.unionByName, rows)

    def schema(self, rows: DataFrame) -> pa.Schema:
        return rows.limit(0).toArrow().schema

    def collect(self, rows: DataFrame) -> pa.Table:
        with step_errors():
            return rows.toArrow()

    def write(self, rows: DataFrame, folder: str) -> None:
        with step_errors():
            rows.write.parquet(for_spark(folder))


def _in_worker(step: Step) -> Any:
    def run(batches: Batches) -> Batches:
        try:
            yield from step(batches)
        except XmtcError as error:
            raise RuntimeError(f"{FAILED}{json.dumps([type(error).__name__, str(error)])}{END}") from error

    return run


def _each_row(step: Step) -> Any:
    """The step, called once per row."""
    whole = _in_worker(step)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for row in range(batch.num_rows):
                yield from whole(iter([batch.slice(row, 1)]))

    return run


@contextmanager
def step_errors() -> Iterator[None]:
    """Raise an error of ours that ended a worker as what it was there."""
    try:
        yield
    except SPARK_ERRORS as error:
        carried = re.search(f"{FAILED}(.*?){END}", str(error), re.DOTALL)
        if carried is None:
            raise
        kind, message = json.loads(carried[1])
        raise getattr(fusion.errors, kind, InputError)(message) from None
