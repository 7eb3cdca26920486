"""What is known about labels beside the texts: their names, alternative names and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import ConfigError, InputError
from jobs.datasets.readers import LABEL_COLUMNS, first_problem, stripped
from jobs.datasets.records import TABLE, field_of, json_records, parquet_records
from jobs.inputs.lines import read_lines
from jobs.settings.prepare import Columns, PrepareSettings, paths_of
from udfs.json_records import Fields

Keys = Literal["position", "label"]
"""How labels are found: by their place in the file (label numbers), or by the label that stands there."""


@dataclass
class LabelFile:
    """rows: the columns of `base.RawDataset.labels`."""

    rows: DataFrame
    count: int
    source: str


def is_plain(path: str) -> bool:
    """Whether a label file is lines of names, not records."""
    return _suffix(path) not in ("json", "jsonl", "ndjson", "parquet") and not path.startswith(TABLE)


def read_label_file(
    spark: SparkSession, settings: PrepareSettings, keys: Keys, columns: Columns | None = None
) -> LabelFile | None:
    """The label file of the settings, if they name one."""
    if settings.label_file is None:
        return None
    if is_plain(settings.label_file):
        return _from_lines(spark, settings, settings.label_file, keys)
    return _from_records(spark, settings, settings.label_file, keys, columns)


def _from_lines(spark: SparkSession, settings: PrepareSettings, path: str, keys: Keys) -> LabelFile:
    """Lines of names."""
    lines = read_lines(spark, paths_of(settings, path), settings.label_encoding)
    name = stripped(F.col("value"))
    label = _number(F.col("line"), settings) if keys == "position" else name
    rows = lines.rows.select(
        F.col("line").alias("position"),
        label.alias("label"),
        name.alias("name"),
        F.array().cast("array<string>").alias("alt_names"),
        F.lit("").alias("description"),
        first_problem(lines.problem, _unnamed(label)),
    )
    return LabelFile(rows.select(*LABEL_COLUMNS, "problem"), lines.count, lines.source)


def _from_records(
    spark: SparkSession, settings: PrepareSettings, path: str, keys: Keys, fixed: Columns | None
) -> LabelFile:
    """Records, whose columns are fixed by the format or named by the settings."""
    columns = fixed or settings.columns
    fields = Fields(
        lists=(columns.alt_names,),
        texts=tuple(name for name in (columns.label, columns.name, columns.description) if name),
        required=(columns.label,) if keys == "label" else (),
    )
    is_table = path.startswith(TABLE) or _suffix(path) == "parquet"
    read = parquet_records if is_table else json_records
    records = read(spark, paths_of(settings, path), settings.label_encoding, fields)
    if keys == "position" and not records.count:
        raise ConfigError(f"the rows of {records.source} have no order, so they cannot be found by label number")
    label = _number(F.col("position"), settings) if keys == "position" else field_of(columns.label)
    rows = records.rows.select(
        "position",
        label.alias("label"),
        (field_of(columns.name) if columns.name else F.lit(None).cast("string")).alias("name"),
        field_of(columns.alt_names).alias("alt_names"),
        field_of(columns.description).alias("description"),
        first_problem(F.col("problem"), _unnamed(label)),
    )
    if columns.name and rows.where((F.trim("name") != "") | F.col("problem").isNotNull()).isEmpty():
        raise _no_names(records.source, columns.name, fixed is not None)
    return LabelFile(rows.select(*LABEL_COLUMNS, "problem"), records.count, records.source)


def _no_names(source: str, column: str, fixed: bool) -> InputError:
    """The error for a label file without names: labels would be known by their ids only, which say nothing."""
    remedy = (
        "leave out prepare.label_file if they have none"
        if fixed
        else "set prepare.columns.name to what holds the names, or to null if they have none"
    )
    return InputError(f"{source}: no label has a name, since no record has {column!r}; {remedy}")


def _number(position: Column, settings: PrepareSettings) -> Column:
    return (position + settings.first_label).cast("string")


def _unnamed(label: Column) -> Column:
    empty = F.coalesce(F.trim(label), F.lit("")) == ""
    return F.when(empty, F.concat(F.col("place"), F.lit(": a label without a name")))


def _suffix(path: str) -> str:
    bare = path.rstrip("/").removesuffix(".gz").removesuffix(".bz2")
    return bare.rpartition(".")[2].lower()
