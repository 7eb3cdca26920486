"""The engine `arrays`: lists stay arrays, and normalisation happens inside the kernel.

One shuffle of one row per list, then the kernel on a stream of whole texts: memory does not grow with the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from udfs.list_codes import Layout
from udfs.partitioning import repartitioned
from udfs.problems import Problems
from udfs.text_batches import Work, read_texts, whole_texts


def over_arrays(layout: Layout, work: Work, schema: str, partitions: int | None) -> Callable[[DataFrame], DataFrame]:
    """From list rows to the rows of `work`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        problems = Problems()
        texts = (read_texts(table, layout, problems) for table in whole_texts(batches))
        yield from work((batch for batch in texts if batch is not None), problems)

    def transform(rows: DataFrame) -> DataFrame:
        return repartitioned(rows, "text_id", partitions).sortWithinPartitions("text_id").mapInArrow(run, schema)

    return transform
