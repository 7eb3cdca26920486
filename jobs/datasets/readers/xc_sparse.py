"""Format `xc-sparse`: labels from the extreme classification repository's sparse text format, texts from raw lines.

The file of labels opens with a header `N D L` (texts, features, labels); then each line holds the labels of a text,
with commas between them, and its features, which are passed over: `l1,l2 f:v f:v`.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from jobs.datasets.readers.aligned import aligned_texts
from jobs.datasets.readers.base import LABEL_COLUMNS, RawDataset, reader
from jobs.datasets.readers.label_files import read_label_file
from jobs.datasets.readers.label_ids import Checked, checked_ids
from jobs.datasets.readers.lines import Lines
from jobs.settings.prepare import PrepareSettings


@reader("xc-sparse", label_lines=True)
def xc_sparse(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    names = read_label_file(spark, settings, "position")
    sizes: dict[str, int] = {names.source: names.count} if names else {}

    def parse(lines: Lines) -> Checked:
        labels = _header(lines)
        sizes[lines.source] = labels
        if len(set(sizes.values())) > 1:
            counts = "; ".join(f"{source}: {size:,}" for source, size in sizes.items())
            raise InputError(f"the files differ in the number of labels: {counts}")
        # A text without labels is a line that begins with a space, or with a feature.
        first = F.element_at(F.split("value", r"\s"), 1)
        words = F.filter(F.split(F.when(first.contains(":"), "").otherwise(first), ","), lambda word: word != "")
        return checked_ids(words, F.col("place"), settings.first_label, labels, lines.source)

    texts = aligned_texts(spark, settings, parse, header=1)
    if names:
        return RawDataset(texts, names.rows, names.source)
    source, size = next(iter(sizes.items()))
    numbers = spark.range(size).select(
        F.col("id").alias("position"),
        (F.col("id") + settings.first_label).cast("string").alias("label"),
        F.lit("").alias("name"),
        F.array().cast("array<string>").alias("alt_names"),
        F.lit("").alias("description"),
        F.lit(None).cast("string").alias("problem"),
    )
    return RawDataset(texts, numbers.select(*LABEL_COLUMNS, "problem"), source)


def _header(lines: Lines) -> int:
    """The number of labels that the header states."""
    first_line = lines.rows.where("line = 0").select("value").collect()[0]["value"]
    header = re.fullmatch(r"\s*(\d+)\s+(\d+)\s+(\d+)\s*", first_line)
    if header is None:
        raise InputError(
            f"{lines.source} line 1: expected a header 'N D L' (texts, features, labels), found {first_line[:80]!r}"
        )
    texts, labels = int(header[1]), int(header[3])
    if texts != lines.count - 1:
        raise InputError(f"{lines.source}: the header says {texts:,} texts, but {lines.count - 1:,} lines follow it")
    return labels
