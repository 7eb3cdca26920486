"""Tables as Spark reads them, for the preparation of datasets."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from jobs.engines.spark import SparkEngine
from jobs.inputs.sources import require, source_address


def read_table(spark: SparkSession, source: str) -> DataFrame:
    """A Parquet path or a catalog table."""
    return SparkEngine(spark).read(source_address(source))


def require_columns(table: DataFrame, source: str, wanted: Sequence[str]) -> None:
    """Refuse a DataFrame that lacks a column, or in which one is of another type than its name requires."""
    require({field.name: field.dataType.simpleString() for field in table.schema.fields}, source, wanted)
