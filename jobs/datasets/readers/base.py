"""What every reader gives: texts with their labels as they were published, and what is known about the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import ConfigError, InputError
from fusion.registry import Registry
from jobs.runtime.spark_errors import spark_reason
from jobs.settings.prepare import Part, PrepareSettings, paths_of

TEXT_COLUMNS = ["text_id", "position", "text", "labels", "key", "problem"]
LABEL_COLUMNS = ["position", "label", "name", "alt_names", "description"]
TEXT_KEY = "text"
"""The group key that every format has: the text itself."""


@dataclass
class RawDataset:
    """A dataset as published, not read yet.

    texts: text_id long, position long (the order of the files; null in a catalog table, which has none), text string,
    labels array<string>, key string (null if there is none), and problem string: what is wrong with the row and where
    it stands, null if nothing is.
    labels: position long, label string, name string, alt_names array<string>, description string; None if the format
    has no list of labels, so that those in use are all.
    """

    texts: DataFrame
    labels: DataFrame | None = None
    label_source: str = ""


@dataclass(frozen=True)
class Reader:
    """A published form and how it is read."""

    name: str
    read: Callable[[SparkSession, PrepareSettings], RawDataset]
    label_lines: bool
    """Whether each part has a file of labels beside its file of texts."""
    columns: bool
    """Whether the settings of columns apply, the group key's included."""


READERS: Registry[Reader] = Registry("format")


def reader(
    name: str, *, label_lines: bool = False, columns: bool = False
) -> Callable[[Callable[[SparkSession, PrepareSettings], RawDataset]], Reader]:
    """Register a format."""

    def register(read: Callable[[SparkSession, PrepareSettings], RawDataset]) -> Reader:
        return READERS.add(Reader(name, read, label_lines, columns))

    return register


def check_settings(settings: PrepareSettings) -> Reader:
    """The reader of the format, if the settings say all that it needs."""
    if settings.format is None:
        raise ConfigError(
            "no dataset: choose one with --config conf/datasets/NAME.yaml, or set prepare.format and prepare.parts "
            f"(formats: {', '.join(READERS.names())})"
        )
    chosen = READERS[settings.format]
    if not settings.parts:
        raise ConfigError(f"prepare.parts is empty: name the files of the dataset (format {chosen.name})")
    for part in settings.parts:
        if chosen.label_lines and not part.labels:
            raise ConfigError(f"prepare.parts: part {part.name!r} needs a file of labels (format {chosen.name})")
        if part.labels and not chosen.label_lines:
            raise ConfigError(
                f"prepare.parts: part {part.name!r} names a file of labels, but in the format {chosen.name} "
                "labels are in the same file as their texts"
            )
    if settings.group_key not in (None, TEXT_KEY) and not chosen.columns:
        raise ConfigError(
            f"prepare.group_key is {settings.group_key!r}, but the format {chosen.name} has no columns; "
            f"only {TEXT_KEY!r} can group its texts"
        )
    return chosen


def source_of(paths: list[str]) -> str:
    """Some files as messages name them."""
    return ", ".join(paths)


def file_parts(settings: PrepareSettings) -> list[tuple[Part, list[str]]]:
    """The parts with the paths of their texts."""
    return [(part, paths_of(settings, part.texts)) for part in settings.parts]


def reading_error(source: str, error: BaseException) -> InputError:
    """What Spark says about a file that it cannot read, in one line."""
    remedy = "; check prepare.folder and the names of the files" if isinstance(error, AnalysisException) else ""
    return InputError(f"cannot read {source}: {spark_reason(error)}{remedy}")


def first_problem(*checks: Column) -> Column:
    """The first of several problems, null if there is none."""
    return (F.coalesce(*checks) if len(checks) > 1 else checks[0]).alias("problem")


def local_table(spark: SparkSession, names: list[str], rows: Sequence[tuple[Any, ...]]) -> DataFrame:
    """A small table from Python values. By way of Arrow, since plain rows would start Python workers."""
    return spark.createDataFrame(pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows]))


def union(tables: list[DataFrame]) -> DataFrame:
    """The rows of all tables."""
    together = tables[0]
    for table in tables[1:]:
        together = together.unionByName(table)
    return together
