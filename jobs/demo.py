"""Job `demo`: the whole grid on generated candidates of realistic shape, in five folds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fusion.synthetic import label_groups, make_chunk
from jobs import evaluate
from jobs.config import Config

TEXTS, LABELS, CHUNK, FOLDS = 10_000, 4_000, 1_000, 5
LISTS = "retriever string, text_id long, label_group string, label_ids array<int>, scores array<float>"


def run(spark: SparkSession, config: Config) -> evaluate.Result:
    """Write the tables to a scratch folder and evaluate them."""
    with tempfile.TemporaryDirectory(prefix="xmtc-fusion-demo-") as folder:
        chunks = spark.range(0, TEXTS, CHUNK)
        chunks.mapInArrow(_lists, LISTS).write.parquet(f"{folder}/candidates")
        chunks.mapInArrow(_samples, "text_id long, label_ids array<int>").write.parquet(f"{folder}/samples")
        ids, groups = label_groups(LABELS)
        labels = pa.table({"label_id": ids, "label_group": groups.tolist()})
        spark.createDataFrame(labels).write.parquet(f"{folder}/labels")
        fold = F.pmod(F.xxhash64("id"), F.lit(FOLDS)).cast("int")
        spark.range(TEXTS).select(fold.alias("fold"), F.col("id").alias("text_id")).write.parquet(f"{folder}/folds")
        inputs = config.inputs.model_copy(
            update={
                "candidates": f"{folder}/candidates",
                "judgements": f"{folder}/samples",
                "label_groups": f"{folder}/labels",
                "folds": f"{folder}/folds",
            }
        )
        return evaluate.run(spark, config.model_copy(update={"dataset": "demo", "inputs": inputs}))


def _lists(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for first in (first for batch in batches for first in batch["id"].to_pylist()):
        for (retriever, group), (label, score) in make_chunk(first, CHUNK, LABELS).lists.items():
            yield pa.RecordBatch.from_pydict(
                {
                    "retriever": [retriever] * CHUNK,
                    "text_id": np.arange(first, first + CHUNK),
                    "label_group": [group] * CHUNK,
                    "label_ids": [row[row >= 0] for row in label],
                    "scores": [values[row >= 0] for row, values in zip(label, score, strict=True)],
                }
            )


def _samples(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for first in (first for batch in batches for first in batch["id"].to_pylist()):
        chunk = make_chunk(first, CHUNK, LABELS)
        relevant = np.split(chunk.relevant, np.cumsum(chunk.sizes)[:-1])
        yield pa.RecordBatch.from_pydict({"text_id": np.arange(first, first + CHUNK), "label_ids": relevant})


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("demo")
