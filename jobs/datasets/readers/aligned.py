"""Two files per part, line by line: texts in the one, their labels in the other."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.datasets.readers.base import TEXT_COLUMNS, file_parts, first_problem, union
from jobs.datasets.readers.label_ids import Checked
from jobs.datasets.readers.lines import Lines, read_lines, same_length
from jobs.settings.prepare import PrepareSettings, paths_of

Parse = Callable[[Lines], Checked]
"""From the lines of a label file (columns value and place) to the labels of each."""


def aligned_texts(spark: SparkSession, settings: PrepareSettings, parse: Parse, header: int = 0) -> DataFrame:
    """The texts of all parts, numbered on from part to part. `header` lines open each file of labels."""
    parts, offset = [], 0
    for part, paths in file_parts(settings):
        texts = read_lines(spark, paths, settings.encoding)
        labels = read_lines(spark, paths_of(settings, part.labels or []), settings.encoding)
        same_length(texts, labels, header)
        parts.append(_joined(texts, labels, parse(labels), header, offset))
        offset += texts.count
    return union(parts)


def _joined(texts: Lines, labels: Lines, checked: Checked, header: int, offset: int) -> DataFrame:
    left = texts.rows.select("line", F.col("value").alias("text"), texts.problem.alias("text_problem"))
    right = labels.rows.where(F.col("line") >= header).select(
        (F.col("line") - header).alias("line"),
        checked.labels.alias("labels"),
        F.coalesce(labels.problem, checked.problem).alias("label_problem"),
    )
    rows = left.join(right, "line").select(
        (F.col("line") + offset).alias("text_id"),
        (F.col("line") + offset).alias("position"),
        "text",
        "labels",
        F.lit(None).cast("string").alias("key"),
        first_problem(F.col("text_problem"), F.col("label_problem")),
    )
    return rows.select(*TEXT_COLUMNS)
