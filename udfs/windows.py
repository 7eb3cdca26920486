"""The engine `windows` on Spark: candidates exploded, normalised by SQL window functions, then fused by a grouped UDF.

The rows before the grouped UDF (`normalized_rows`) hold every candidate with its position, its list's figures and
its score under each normalisation: that is what to look at when a number surprises. The results are those of `arrays`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from fusion.grid.grid import Grid
from fusion.kernel.arithmetic import LARGEST, exponential
from fusion.labels import ALL
from fusion.registry import Normalization
from fusion.types import EPS
from udfs.list_arrays import ListArrays, Marks, Rows
from udfs.lists import JUDGEMENT, NO_FOLD, Layout, number_labels
from udfs.plan import Ranking
from udfs.problems import Problems
from udfs.steps import key_starts, spark_schema
from udfs.texts import Batch, Work, assemble

TEXTS_PER_BUCKET = 1000
LIST = ["bucket", "text_id", "fold", "list"]


def over_windows(
    layout: Layout, ranking: Ranking, work: Work, schema: pa.Schema, partitions: int | None
) -> Callable[[DataFrame], DataFrame]:
    """From list rows to the rows of `work`."""
    # Distances have their sign, and lists are whole, before anything is normalised.
    form = replace(layout.form, fragments=frozenset(), distances=frozenset())
    pooled = replace(layout, slots=pool_slots(layout, ranking), form=form)
    normalizations = in_sql(ranking.grid)

    def run(bucket: pa.Table) -> pa.Table:
        problems = Problems()
        batch = _read_bucket(bucket, pooled, [entry.name for entry in normalizations], problems)
        return pa.Table.from_batches(work(iter([] if batch is None else [batch]), problems), schema)

    def transform(rows: DataFrame) -> DataFrame:
        lists_per_text = len(layout.retrievers) * len(layout.slots)
        buckets = max(1, rows.count() // (lists_per_text * TEXTS_PER_BUCKET))
        normalized = rows.transform(normalized_rows(layout, pooled.slots, normalizations, buckets, partitions))
        scores = [f"normalized_{n}" for n in range(len(normalizations))]
        # The place keeps rows in the order of their lists: where no window figure is read, Spark does not sort them.
        needed = normalized.select(*LIST, "slot", "position", "label_id", "score", *scores)
        return needed.groupBy("bucket").applyInArrow(run, spark_schema(schema))

    return transform


def pool_slots(layout: Layout, ranking: Ranking) -> tuple[str, ...]:
    """The lists that are normalised: one per label group, one of all labels, or both."""
    if ranking.scope == "joint" or layout.slots == (ALL,):
        return (ALL,)
    return (*layout.slots, ALL) if ALL in ranking.views else layout.slots


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
        pairs = F.explode_outer(F.arrays_zip("label_ids", "scores")).alias("pair")
        exploded = rows.withColumn("scores", _scores(layout)).select(bucket, "text_id", "fold", "list", pairs)
        single = _in_groups(exploded, layout)
        slot = F.when((F.col("list") > JUDGEMENT) & (F.col("list") < layout.whole), F.col("list") % len(layout.slots))
        candidates = single.select(
            "bucket",
            "text_id",
            "fold",
            slot.alias("slot"),
            _pools(layout, slots),
            F.col("pair.label_ids").alias("label_id"),
            F.col("pair.scores").cast("double").alias("score"),
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


def _scores(layout: Layout) -> Column:
    """The scores of lists: 0 where judgements have no grades, and with the opposite sign where they are distances."""
    zeros = F.transform("label_ids", lambda _: F.lit(0.0))
    bare = (F.col("list") <= JUDGEMENT) & F.col("scores").isNull()
    scores = F.when(bare, zeros).otherwise(F.col("scores").cast("array<double>"))
    if layout.form.distances:
        whole = F.col("list") >= layout.whole
        retriever = F.when(whole, F.col("list") - layout.whole).otherwise(F.floor(F.col("list") / len(layout.slots)))
        turned = (F.col("list") > JUDGEMENT) & retriever.isin(*layout.form.distances)
        # Subtracted from 0, which stays 0 without a sign.
        scores = F.when(turned, F.transform(scores, lambda score: F.lit(0.0) - score)).otherwise(scores)
    return scores


def _in_groups(exploded: DataFrame, layout: Layout) -> DataFrame:
    """Candidates of lists of all labels with the code of the list of their label group, where lists are divided."""
    groups = layout.groups
    if not layout.form.undivided:
        return exploded
    assert groups is not None
    # A label without a group goes to any list; the workers look every label up and report it.
    stray = max(groups.unknown, 0)
    kind = exploded.select("pair.label_ids").schema[0].dataType.simpleString()
    codes = exploded.sparkSession.createDataFrame(
        pa.table({"known": groups.ids, "group": pa.array(groups.codes, pa.int32())})
    ).select(F.col("known").cast(kind), "group")
    of_group = (F.col("list") - layout.whole) * len(layout.slots) + F.coalesce("group", F.lit(stray))
    undivided = (F.col("list") >= layout.whole) & (F.col("list") < layout.marks)
    joined = exploded.join(F.broadcast(codes), F.col("pair.label_ids") == F.col("known"), "left")
    return joined.withColumn("list", F.when(undivided, of_group).otherwise(F.col("list"))).drop("known", "group")


def _pools(layout: Layout, slots: tuple[str, ...]) -> Column:
    """The lists that a row goes into, as codes of the new slots; one row each."""
    targets = [[JUDGEMENT]]
    for code in range(layout.whole):
        retriever, slot = divmod(code, len(layout.slots))
        wanted = dict.fromkeys((layout.slots[slot], ALL))
        targets.append([retriever * len(slots) + slots.index(name) for name in wanted if name in slots])
    table = F.array(*(F.array(*map(F.lit, row)) for row in targets))
    # The codes of judgements say how long the text is, and stay.
    of_run = F.element_at(table, F.greatest(F.col("list"), F.lit(JUDGEMENT)) + 2)
    pooled = replace(layout, slots=slots)
    mark = F.array(F.col("list") + (pooled.marks - layout.marks))
    codes = F.when(F.col("list") <= JUDGEMENT, F.array("list")).when(F.col("list") >= layout.whole, mark)
    return F.explode(codes.otherwise(of_run)).alias("list")


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
    text_id, fold = columns["text_id"], pc.fill_null(columns["fold"], NO_FOLD).to_numpy()
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
    if problems:
        return None
    starts = key_starts(pa.table({"text_id": rows.text_id}), ["text_id"])
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(first))))
    marks, counted = Marks.apart(number, fold[first], code[first], layout)
    listed &= np.repeat(counted, np.diff(np.append(first, len(code))))
    rows.report(np.logical_or.reduceat(no_label & listed, first), "label_ids", "null id, or fewer labels than scores")
    rows.report(np.logical_or.reduceat(no_score & listed, first), "scores", "null score, or fewer scores than labels")
    if problems or not counted.any():
        return None

    kept = pa.array(listed)
    sizes = np.add.reduceat(listed.astype(np.int64), first)[counted]
    label, decode = number_labels(columns["label_id"].filter(kept))
    lists = ListArrays(
        number=number[counted],
        fold=fold[first][counted],
        code=code[first][counted],
        offset=np.append(0, np.cumsum(sizes)),
        label=label,
        score=columns["score"].filter(kept).to_numpy(),
        decode=decode,
        normalized={name: columns[f"normalized_{n}"].filter(kept).to_numpy() for n, name in enumerate(normalized)},
        slot=columns["slot"].filter(kept).fill_null(-1).to_numpy().astype(np.int8),
    )
    return assemble(lists, marks, rows.text_id.take(pa.array(starts)), layout, problems)
