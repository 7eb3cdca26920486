"""Records with named fields, from JSON lines or Parquet files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from fusion.errors import InputError
from jobs.datasets.readers.base import local_table, reading_error, source_of
from jobs.datasets.readers.lines import read_lines, shown
from jobs.inputs.spark_tables import read_table
from jobs.runtime.spark_errors import SPARK_ERRORS
from jobs.settings.prepare import Encoding
from udfs.json_records import Fields, json_record_rows
from udfs.stores.addresses import for_spark

ROW_NUMBER = "_metadata.row_index"
TABLE = "table:"


@dataclass
class Records:
    """Records in the order of the files' names.

    rows: position long (from 0, over all files), place string and problem string (for messages), record struct.
    The rows of a catalog table have no order: their positions are null, and the count is 0.
    """

    rows: DataFrame
    count: int
    source: str


def _kinds(fields: Fields) -> dict[str, DataType]:
    """The Spark types of the fields."""
    lists: dict[str, DataType] = {name: ArrayType(StringType()) for name in fields.lists}
    return {**{name: StringType() for name in fields.texts}, **lists}


ReadRecords = Callable[[SparkSession, list[str], Encoding, Fields], Records]


def field_of(name: str) -> Column:
    return F.col("record").getField(name)


def json_records(spark: SparkSession, paths: list[str], encoding: Encoding, fields: Fields) -> Records:
    """JSON lines, blank ones skipped. Numbers become strings."""
    lines = read_lines(spark, paths, encoding)
    # Lines that are not text have a problem already, and Python could not be given them as strings.
    value = F.when(F.col("unreadable").isNull(), F.col("value").cast("binary")).alias("value")
    filled = lines.rows.where(F.trim("value") != "")
    given = filled.select(F.col("line").alias("position"), "place", lines.problem.alias("problem"), value)
    record = StructType([StructField(name, kind) for name, kind in _kinds(fields).items()])
    schema = given.drop("value").schema.add("record", record)
    return Records(given.mapInArrow(json_record_rows(fields), schema), lines.count, lines.source)


def parquet_records(spark: SparkSession, paths: list[str], encoding: Encoding, fields: Fields) -> Records:
    """Parquet files, or one catalog table (`table:NAME`), whose rows have no order and hence no numbers."""
    source = source_of(paths)
    if any(path.startswith(TABLE) for path in paths):
        table = read_table(spark, paths[0])
        record = _struct(table, source, fields)
        place = F.lit(source).alias("place")
        return Records(table.select(_null("bigint", "position"), place, _null("string", "problem"), record), 0, source)
    try:
        table = spark.read.parquet(*map(for_spark, paths))
        record = _struct(table, source, fields)
        rows = table.select(F.col("_metadata.file_path").alias("file"), F.col(ROW_NUMBER).alias("row"), record)
        counts = table.groupBy(F.col("_metadata.file_path").alias("file")).count().collect()
    except SPARK_ERRORS as error:
        raise reading_error(source, error) from None
    files, total = [], 0
    for file, count in sorted(tuple(row) for row in counts):
        files.append((file, total, shown(file)))
        total += count
    if not total:
        raise InputError(f"{source} is empty")
    known = F.broadcast(local_table(spark, ["file", "before", "file_name"], files))
    numbered = rows.join(known, "file").select(
        (F.col("before") + F.col("row")).alias("position"),
        F.concat("file_name", F.lit(" row "), F.col("row") + 1).alias("place"),
        _null("string", "problem"),
        "record",
    )
    return Records(numbered, total, source)


def _struct(table: DataFrame, source: str, fields: Fields) -> Column:
    """The fields of a table as one column; those that are absent and not required are null."""
    missing = [name for name in (*fields.required, *fields.any_of) if name not in table.columns]
    if missing:
        raise InputError(
            f"{source}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; "
            f"it has {', '.join(table.columns) or 'none'} (prepare.columns says what they are called)"
        )
    columns = []
    for name, kind in _kinds(fields).items():
        if name not in table.columns:
            columns.append(F.lit(None).cast(kind).alias(name))
            continue
        given = table.schema[name].dataType
        if isinstance(given, ArrayType) != isinstance(kind, ArrayType):
            wanted = "a list" if isinstance(kind, ArrayType) else "a single value"
            raise InputError(f"{source}: column {name!r} is {given.simpleString()}, expected {wanted}")
        columns.append(F.col(f"`{name}`").cast(kind).alias(name))
    return F.struct(*columns).alias("record")


def _null(kind: str, name: str) -> Column:
    return F.lit(None).cast(kind).alias(name)
