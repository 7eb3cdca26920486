"""The engines on Spark, `arrays` and `windows`. Both give the same rows.

One shuffle of one row per list, then the kernel on a stream of whole texts: memory does not grow with the data.

The engine `windows`: candidates exploded, normalised by SQL window functions, then fused by a grouped UDF.

The rows before the grouped UDF (`normalized_rows`) hold every candidate with its position, its list's figures and
its score under each normalisation: that is what to look at when a number surprises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from fusion.grid.grid import Grid
from fusion.kernel.candidates import LARGEST, exponential
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.registry import Normalization
from fusion.types import EPS
from udfs.lists import JUDGEMENT, Layout, number_labels
from udfs.problems import Problems
from udfs.retrieval.partitioning import repartitioned
from udfs.texts import Batch, Rows, Work, assemble, read_texts, whole_texts


def over_arrays(layout: Layout, work: Work, schema: str, partitions: int | None) -> Callable[[DataFrame], DataFrame]:
    """From list rows to the rows of `work`."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        problems = Problems()
        texts = (read_texts(table, layout, problems) for table in whole_texts(batches))
        yield from work((batch for batch in texts if batch is not None), problems)

    def transform(rows: DataFrame) -> DataFrame:
        return repartitioned(rows, "text_id", partitions).sortWithinPartitions("text_id").mapInArrow(run, schema)

    return transform


TEXTS_PER_BUCKET = 1000
LIST = ["bucket", "text_id", "fold", "list"]


def over_windows(
    layout: Layout, grid: Grid, scope: Scope, views: tuple[str, ...], work: Work, schema: str, partitions: int | None
) -> Callable[[DataFrame], DataFrame]:
    """From list rows to the rows of `work`."""
    pooled = replace(layout, slots=pool_slots(layout, scope, views))
    normalizations = in_sql(grid)

    def run(bucket: pa.Table) -> pa.Table:
        problems = Problems()
        batch = _read_bucket(bucket, pooled, [entry.name for entry in normalizations], problems)
        return pa.Table.from_batches(work(iter([] if batch is None else [batch]), problems))

    def transform(rows: DataFrame) -> DataFrame:
        lists_per_text = len(layout.retrievers) * len(layout.slots)
        buckets = max(1, rows.count() // (lists_per_text * TEXTS_PER_BUCKET))
        normalized = rows.transform(normalized_rows(layout, pooled.slots, normalizations, buckets, partitions))
        scores = [f"normalized_{n}" for n in range(len(normalizations))]
        # The place keeps rows in the order of their lists: where no window figure is read, Spark does not sort them.
        needed = normalized.select(*LIST, "slot", "position", "label_id", "score", *scores)
        return needed.groupBy("bucket").applyInArrow(run, schema)

    return transform


def pool_slots(layout: Layout, scope: Scope, views: tuple[str, ...]) -> tuple[str, ...]:
    """The lists that are normalised: one per label group, one of all labels, or both."""
    if scope == "joint" or layout.slots == (ALL,):
        return (ALL,)
    return (*layout.slots, ALL) if ALL in views else layout.slots


def in_sql(grid: Grid) -> list[Normalization]:
    """The normalisations that a window over one list can compute."""
    return [entry for entry in grid.normalizations if not entry.needs_candidates]


def normalized_rows(
    layout: Layout, slots: tuple[str, ...], normalizations: list[Normalization], buckets: int, partitions: int | None
) -> Callable[[DataFrame], DataFrame]:
    """One row per candidate and list, with its position and its normalised scores.

    One exchange (by bucket), one sort, two window nodes: every figure of a list is taken over the same window,
    and the standard deviation is taken in a second pass, because it needs the mean.
    """

    def transform(rows: DataFrame) -> DataFrame:
        bucket = F.pmod(F.xxhash64("text_id"), F.lit(buckets)).cast("int").alias("bucket")
        slot = F.when(F.col("list") > JUDGEMENT, F.col("list") % len(layout.slots)).alias("slot")
        lists = rows.select(bucket, "text_id", "fold", slot, _pools(layout, slots), "label_ids", "scores")
        pairs = lists.select(*LIST, "slot", F.explode_outer(F.arrays_zip("label_ids", "scores")).alias("pair"))
        candidates = pairs.select(
            *LIST, "slot", F.col("pair.label_ids").alias("label_id"), F.col("pair.scores").cast("double").alias("score")
        ).repartition(partitions or buckets, "bucket")

        order = Window.partitionBy(*LIST).orderBy(F.col("score").desc(), *_label_order(candidates))
        whole = order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
        # A list without results is one row without a label; its size must not be a zero divisor.
        figures = candidates.withColumns(
            {
                "position": F.row_number().over(order) - 1,
                "size": F.greatest(F.count("label_id").over(whole), F.lit(1)),
                "low": F.min("score").over(whole),
                "high": F.max("score").over(whole),
                "total": F.sum("score").over(whole),
            }
        ).withColumn("mean", F.col("total") / F.col("size"))
        distance = F.col("score") - F.col("mean")
        figures = figures.withColumn("std", F.sqrt(F.sum(distance * distance).over(whole) / F.col("size")))
        return figures.withColumns({f"normalized_{n}": _score(entry, whole) for n, entry in enumerate(normalizations)})

    return transform


@dataclass
class ColumnStatistics:
    """The figures of a list as columns; what a normalisation reads."""

    size: Column
    low: Column
    high: Column
    total: Column
    mean: Column
    std: Column

    @staticmethod
    def guard(denominator: Column) -> Column:
        return F.greatest(denominator, F.lit(EPS))


@dataclass
class ColumnArithmetic:
    """Arithmetic over whole lists on columns, for normalisations that are more than a shift and a scale."""

    whole: WindowSpec

    @staticmethod
    def guard(denominator: Column) -> Column:
        return ColumnStatistics.guard(denominator)

    def sum(self, values: Column) -> Column:
        return F.sum(values).over(self.whole)

    @staticmethod
    def clip(values: Column, low: float, high: float) -> Column:
        return F.least(F.greatest(values, F.lit(low)), F.lit(high))

    @staticmethod
    def sqrt(values: Column) -> Column:
        return F.sqrt(values)

    def exp(self, values: Column) -> Column:
        inside = self.clip(values, -LARGEST, LARGEST)
        raised: Column = exponential(inside, F.floor, lambda exponent: F.pow(F.lit(2.0), exponent))
        return raised


def _score(entry: Normalization, whole: WindowSpec) -> Column:
    figures = ColumnStatistics(*map(F.col, ("size", "low", "high", "total", "mean", "std")))
    shift, scale = entry.affine(figures)
    value = F.col("score") if entry.reads == "scores" else F.col("position").cast("double")
    scaled: Column = (value - shift) / scale
    return scaled if entry.shape is None else entry.shape(scaled, ColumnArithmetic(whole))


def _pools(layout: Layout, slots: tuple[str, ...]) -> Column:
    """The lists that a row goes into, as codes of the new slots; one row each."""
    targets = [[JUDGEMENT]]
    for code in range(len(layout.retrievers) * len(layout.slots)):
        retriever, slot = divmod(code, len(layout.slots))
        wanted = dict.fromkeys((layout.slots[slot], ALL))
        targets.append([retriever * len(slots) + slots.index(name) for name in wanted if name in slots])
    table = F.array(*(F.array(*map(F.lit, row)) for row in targets))
    # The codes of judgements say how long the text is, and stay.
    of_run = F.element_at(table, F.greatest(F.col("list"), F.lit(JUDGEMENT)) + 2)
    return F.explode(F.when(F.col("list") <= JUDGEMENT, F.array("list")).otherwise(of_run)).alias("list")


def _label_order(candidates: DataFrame) -> list[Column]:
    """The order of label ids, as `udfs.lists.id_order` has it."""
    label = F.col("label_id")
    if not isinstance(candidates.schema["label_id"].dataType, StringType):
        return [label.asc()]
    digits = F.when(label.rlike("^(0|[1-9][0-9]*)$"), F.length(label))
    return [digits.asc_nulls_last(), label.asc()]


def _read_bucket(bucket: pa.Table, layout: Layout, normalized: list[str], problems: Problems) -> Batch | None:
    """The rows of a bucket, which come list by list and best first, as texts."""
    columns = {name: bucket[name].combine_chunks() for name in bucket.column_names}
    text_id, fold = columns["text_id"], columns["fold"].to_numpy()
    code = columns["list"].to_numpy()
    another = pc.fill_null(pc.not_equal(text_id.slice(1), text_id.slice(0, len(text_id) - 1)), True)
    change = another.to_numpy(zero_copy_only=False) | (fold[1:] != fold[:-1]) | (code[1:] != code[:-1])
    first = np.concatenate(([0], np.flatnonzero(change) + 1))

    # A list without results is a single row without label and score.
    alone = np.diff(np.append(first, len(code))) == 1
    no_label = columns["label_id"].is_null().to_numpy(zero_copy_only=False)
    no_score = columns["score"].is_null().to_numpy(zero_copy_only=False)
    empty = alone & no_label[first] & no_score[first]
    listed = np.ones(len(code), np.bool_)
    listed[first[empty]] = False

    rows = Rows(text_id.take(pa.array(first)), code[first], layout, problems)
    rows.report(rows.text_id.is_null().to_numpy(zero_copy_only=False), "text_id", "null id")
    rows.report(np.logical_or.reduceat(no_label & listed, first), "label_ids", "null id, or fewer labels than scores")
    rows.report(np.logical_or.reduceat(no_score & listed, first), "scores", "null score, or fewer scores than labels")
    if problems:
        return None

    kept = pa.array(listed)
    offset = np.concatenate(([0], np.cumsum(np.add.reduceat(listed.astype(np.int64), first))))
    label, decode = number_labels(columns["label_id"].filter(kept))
    score = columns["score"].filter(kept).to_numpy()
    batch = assemble(fold[first], rows, offset, label, score, decode)
    if batch is None:
        return None
    batch.texts.group = columns["slot"].filter(kept).fill_null(-1).to_numpy().astype(np.int8)
    batch.texts.normalized = {
        name: columns[f"normalized_{n}"].filter(kept).to_numpy() for n, name in enumerate(normalized)
    }
    return batch


SparkEngineName = Literal["arrays", "windows"]


def over_lists(
    engine: SparkEngineName,
    layout: Layout,
    grid: Grid,
    scope: Scope,
    views: tuple[str, ...],
    work: Work,
    schema: str,
    partitions: int | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """From list rows to the rows of `work`, through an engine."""
    if engine == "windows":
        return over_windows(layout, grid, scope, views, work, schema, partitions)
    return over_arrays(layout, work, schema, partitions)
