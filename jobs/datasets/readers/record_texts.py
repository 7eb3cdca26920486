"""Texts from records: one record per text, its labels in a list."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import ConfigError
from jobs.datasets.readers.base import TEXT_COLUMNS, TEXT_KEY, file_parts, first_problem, union
from jobs.datasets.readers.label_ids import Checked
from jobs.datasets.readers.records import ReadRecords, Records, field_of
from jobs.settings.prepare import Columns, PrepareSettings
from udfs.json_records import Fields

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
