"""Format `samples-pkl`: the pickled samples of the paper's authors.

A list of dicts with idx, text_idx, text, labels_ids and labels. `idx` numbers the samples and becomes the text_id;
`text_idx` numbers the distinct texts, so texts that occur twice share it.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.datasets.readers.base import (
    LABEL_COLUMNS,
    TEXT_COLUMNS,
    RawDataset,
    file_parts,
    local_table,
    reader,
    source_of,
)
from jobs.settings.prepare import PrepareSettings
from udfs.pickles import SAMPLES_SCHEMA, read_samples


@reader("samples-pkl")
def samples_pkl(spark: SparkSession, settings: PrepareSettings) -> RawDataset:
    paths = [path for _, paths in file_parts(settings) for path in paths]
    # A pickle cannot be read in pieces: one task per file, in a worker, so that the driver holds none of it.
    files = local_table(spark, ["path"], [(path,) for path in paths]).repartition(len(paths), "path")
    samples = files.mapInArrow(read_samples, SAMPLES_SCHEMA)
    added = {"key": F.lit(None).cast("string"), "position": F.col("text_id")}
    texts = samples.withColumns(added).select(*TEXT_COLUMNS)
    names = samples.select(F.explode(F.arrays_zip("labels", "names")).alias("pair"))
    labels = names.select(F.col("pair.labels").alias("label"), F.col("pair.names").alias("name")).distinct()
    rows = labels.select(
        F.col("label").cast("bigint").alias("position"),
        "label",
        "name",
        F.array().cast("array<string>").alias("alt_names"),
        F.lit("").alias("description"),
        F.lit(None).cast("string").alias("problem"),
    )
    return RawDataset(texts, rows.select(*LABEL_COLUMNS, "problem"), source_of(paths))
