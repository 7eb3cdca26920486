"""The engines on Spark: list rows stay where they are, and the kernel goes to them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jobs.inputs.lists import ListRows
from jobs.inputs.plans import Plan
from jobs.inputs.spark import SparkTables
from udfs.counter import COUNTS, COUNTS_SCHEMA, add_counts
from udfs.spark import SparkEngineName, over_lists
from udfs.texts import Work


class SparkEngine:
    """`arrays` or `windows`."""

    def __init__(self, spark: SparkSession, name: SparkEngineName, partitions: int | None) -> None:
        self.name: str = name
        self.tables = SparkTables(spark)
        self._engine, self._partitions = name, partitions

    def counts(self, lists: ListRows[DataFrame], plan: Plan, work: Work) -> pa.Table:
        counted = self.rows(lists, plan, work, COUNTS_SCHEMA)
        return counted.groupBy(*COUNTS).applyInArrow(add_counts, COUNTS_SCHEMA).toArrow()

    def rows(self, lists: ListRows[DataFrame], plan: Plan, work: Work, schema: str) -> DataFrame:
        engine = over_lists(
            self._engine, lists.layout, plan.grid, plan.scope, plan.views, work, schema, self._partitions
        )
        return lists.rows.transform(engine)

    def collected(self, lists: ListRows[DataFrame], keep: Callable[[pa.RecordBatch], pa.RecordBatch]) -> pa.Table:
        return lists.rows.mapInArrow(lambda batches: map(keep, batches), lists.rows.schema).toArrow()
