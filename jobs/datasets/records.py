"""Records with named fields, from JSON lines or Parquet files, and the texts in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from fusion.errors import ConfigError, InputError
from jobs.datasets.readers import TEXT_COLUMNS, TEXT_KEY, Checked, file_parts, first_problem, union
from jobs.engines.errors import SPARK_ERRORS
from jobs.inputs.lines import local_table, read_lines, reading_error, shown, source_of
from jobs.inputs.spark import read_table
from jobs.settings.prepare import Columns, Encoding, PrepareSettings
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


Check = Callable[[Column, Column], Checked]
"""From the labels of a text and its place to checked labels."""


def record_texts(
    spark: SparkSession, settings: PrepareSettings, columns: Columns, read: ReadRecords, check: Check
) -> DataFrame:
    """The texts of all parts, numbered on from part to part unless they have ids."""
    names = [columns.text] if isinstance(columns.text, str) else list(columns.text)
    key = settings.group_key if settings.group_key != TEXT_KEY else None
    fields = Fields(
        lists=(columns.labels,),
        texts=tuple(dict.fromkeys(name for name in (*names, columns.text_id, key) if name)),
        required=tuple(name for name in (columns.labels, columns.text_id, key) if name),
        any_of=names,
    )
    parts, offset = [], 0
    for part, paths in file_parts(settings):
        records = read(spark, paths, settings.encoding, fields)
        if not records.count and columns.text_id is None:
            raise ConfigError(
                f"part {part.name!r}: the rows of {records.source} have no order; set prepare.columns.text_id"
            )
        parts.append(_texts(records, names, columns, key, check, offset))
        offset += records.count
    return union(parts)


def _texts(
    records: Records, names: list[str], columns: Columns, key: str | None, check: Check, offset: int
) -> DataFrame:
    pieces = [F.when(F.trim(field_of(name)) != "", field_of(name)) for name in names]
    text = F.concat_ws("\n", *pieces) if len(pieces) > 1 else field_of(names[0])
    checked = check(field_of(columns.labels), F.col("place"))
    problems = [F.col("problem"), checked.problem]
    text_id = F.col("position") + offset
    if columns.text_id is not None:
        given = field_of(columns.text_id)
        text_id = given.try_cast("bigint")
        no_number = F.concat(
            F.col("place"),
            F.lit(f": {columns.text_id} '"),
            F.coalesce(given, F.lit("null")),
            F.lit("' is not a whole number; without prepare.columns.text_id texts are numbered"),
        )
        problems.append(F.when(text_id.isNull(), no_number))
    rows = records.rows.select(
        text_id.alias("text_id"),
        (F.col("position") + offset).alias("position"),
        text.alias("text"),
        checked.labels.alias("labels"),
        (field_of(key) if key else F.lit(None).cast("string")).alias("key"),
        first_problem(*problems),
    )
    return rows.select(*TEXT_COLUMNS)
