"""From the configured inputs to list rows: one row a ranked list, and one a text with its relevant labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, FloatType

from fusion.errors import ConfigError, InputError
from fusion.label_groups import ALL, HEAD, TAIL, pareto_groups
from fusion.types import Ints
from jobs.inputs.sources import common_type, read_judgements, read_run, read_table, require
from jobs.settings import Inputs
from udfs.label_ids import number_labels
from udfs.list_codes import JUDGEMENT, LabelGroups, Layout

FOLD = 0
"""The one fold, where there are no folds."""


class Frequencies(NamedTuple):
    """How many texts carry each label."""

    ids: pa.Array
    counts: Ints


class Run(NamedTuple):
    """The candidates of a retriever, where they came from, and the label groups they name, if they name any."""

    rows: DataFrame
    source: str
    groups: frozenset[str | None] | None


@dataclass
class ListRows:
    """Rows (text_id, fold, list, label_ids, scores), with the meaning of the list codes."""

    rows: DataFrame
    layout: Layout
    judgements: DataFrame | None


def label_frequencies(judgements: DataFrame) -> Frequencies:
    """Counted by Spark; one row a label comes back, in the order of the ids."""
    labels = judgements.select(F.explode("label_ids").alias("label_id")).where("label_id is not null")
    counted = labels.groupBy("label_id").count().toArrow()
    ids = counted["label_id"].combine_chunks()
    order = pa.array(np.argsort(number_labels(ids)[0]))
    return Frequencies(ids.take(order), counted["count"].combine_chunks().take(order).to_numpy())


def load_lists(spark: SparkSession, inputs: Inputs, judged: bool) -> ListRows:
    """The candidates of all retrievers and, if `judged`, the relevant labels of the test texts."""
    if inputs.candidates is None:
        raise ConfigError("no candidates: give --run NAME=PATH for each retriever, or set inputs.candidates")
    if judged and inputs.judgements is None:
        raise ConfigError("no judgements: give --qrels PATH, or set inputs.judgements")
    runs = _runs(spark, inputs.candidates)
    judgements = read_judgements(spark, inputs.judgements) if inputs.judgements else None
    tables = [run.rows for run in runs.values()] + ([judgements] if judgements is not None else [])
    text_type = common_type(tables, "text_id")
    label_type = max(
        (common_type([table], "label_ids" if "label_ids" in table.columns else "label_id") for table in tables),
        key=lambda kind: ["int", "bigint", "string"].index(kind.simpleString()),
    )
    grouped = any(run.groups is not None for run in runs.values())
    groups = _label_groups(spark, inputs, judgements, grouped)
    folds = _folds(spark, inputs.folds) if inputs.folds else None
    slots = groups.names if groups else (ALL,)
    if grouped and inputs.label_groups == "auto" and judgements is None:
        slots = _group_order(group for run in runs.values() for group in run.groups or ())
    layout = Layout(
        tuple(runs),
        slots,
        groups,
        tuple(run.source for run in runs.values()),
        inputs.judgements or "",
    )

    single = all(_score_type(run.rows) == FloatType() for run in runs.values())
    scores = ArrayType(FloatType()).simpleString() if single else "array<double>"
    divided = slots != (ALL,)
    parts = []
    for code, run in enumerate(runs.values()):
        strange = sorted(str(group) for group in (run.groups or frozenset()) - set(slots) if divided)
        if strange:
            told = f"{', '.join(map(repr, strange))}; known: {', '.join(slots)}"
            raise InputError(f"{run.source}: column 'label_group' holds {told}")
        candidates = _in_fold(run.rows, folds)
        if "label_ids" not in candidates.columns or divided != ("label_group" in candidates.columns):
            candidates = _as_lists(spark, candidates, divided, groups)
        slot = F.array_position(F.array(*map(F.lit, slots)), F.col("label_group")) - 1 if divided else F.lit(0)
        parts.append(candidates.withColumn("list", slot + F.lit(code * len(slots))))
    if judgements is not None and judged:
        relevant = _in_fold(judgements, folds)
        # Equal scores: the total order then sorts them by label id.
        zeros = F.transform("label_ids", lambda _: F.lit(0.0))
        parts.append(relevant.withColumn("list", F.lit(JUDGEMENT)).withColumn("scores", zeros))
    rows = [
        part.select(
            F.col("text_id").cast(text_type),
            F.col("fold").cast("int"),
            F.col("list").cast("int"),
            F.col("label_ids").cast(ArrayType(label_type)),
            F.col("scores").cast(scores),
        )
        for part in parts
    ]
    union = rows[0]
    for part in rows[1:]:
        union = union.union(part)
    return ListRows(union, layout, judgements)


def _runs(spark: SparkSession, candidates: str | dict[str, str]) -> dict[str, Run]:
    """The candidates of each retriever."""
    if isinstance(candidates, dict):
        tables = {name: (read_run(spark, source), source) for name, source in candidates.items()}
        runs = {name: Run(rows, source, _groups_in(rows, source)) for name, (rows, source) in tables.items()}
    else:
        table = read_run(spark, candidates)
        require(table, candidates, ["retriever"])
        groups = _groups_in(table, candidates)
        names = [row["retriever"] for row in table.select("retriever").distinct().collect()]
        if None in names:
            raise InputError(f"{candidates}: column 'retriever' holds nulls")
        runs = {name: Run(table.where(F.col("retriever") == name), candidates, groups) for name in sorted(names)}
    if len(runs) < 2:
        found = f"only {', '.join(runs)}" if runs else "none"
        raise ConfigError(f"fusion needs two retrievers or more; found {found}")
    return runs


def _groups_in(candidates: DataFrame, source: str) -> frozenset[str | None] | None:
    """The label groups that candidates name, None if they name none; refuses a source without candidates."""
    if "label_group" in candidates.columns:
        found = frozenset(row["label_group"] for row in candidates.select("label_group").distinct().collect())
        empty = not found
    else:
        found, empty = None, candidates.isEmpty()
    if empty:
        raise InputError(f"{source} holds no candidates")
    return found


def _in_fold(texts: DataFrame, folds: DataFrame | None) -> DataFrame:
    """Rows with the fold they belong to. Those without one belong to the fold that tests their text."""
    if folds is None:
        return texts.withColumn("fold", F.lit(FOLD))
    return texts if "fold" in texts.columns else texts.join(folds, "text_id")


def _as_lists(spark: SparkSession, candidates: DataFrame, divided: bool, groups: LabelGroups | None) -> DataFrame:
    """Long rows, or lists that are not divided by label group as they should be, as one row a list."""
    if "label_ids" in candidates.columns:
        pair = F.explode(F.arrays_zip("label_ids", "scores"))
        kept = [name for name in ("text_id", "fold", "label_group") if name in candidates.columns]
        candidates = candidates.select(*kept, pair.alias("pair")).select(
            *kept, F.col("pair.label_ids").alias("label_id"), F.col("pair.scores").alias("score")
        )
    keys = ["text_id", "fold"]
    if divided:
        keys.append("label_group")
        if "label_group" not in candidates.columns:
            if groups is None:
                raise ConfigError("some candidates have a label_group and others have not: set inputs.label_groups")
            # A label without a group goes to any list; the workers look every label up and report it.
            stray = groups.names[max(groups.unknown, 0)]
            known = spark.createDataFrame(
                pa.table({"label_id": groups.ids, "label_group": pa.array(np.array(groups.names)[groups.codes])})
            )
            candidates = candidates.join(F.broadcast(known), "label_id", "left").fillna(stray, ["label_group"])
    pairs = F.collect_list(F.struct("label_id", "score"))
    lists = candidates.groupBy(*keys).agg(pairs.alias("pairs"))
    return lists.select(*keys, F.col("pairs.label_id").alias("label_ids"), F.col("pairs.score").alias("scores"))


def _group_order(groups: Iterable[str | None]) -> tuple[str, ...]:
    """Tail, head, then other groups by name."""
    return tuple(sorted({str(group) for group in groups}, key=lambda name: (name != TAIL, name != HEAD, name)))


def _score_type(run: DataFrame) -> object:
    return common_type([run], "scores" if "scores" in run.columns else "score")


def _label_groups(
    spark: SparkSession, inputs: Inputs, judgements: DataFrame | None, grouped: bool
) -> LabelGroups | None:
    wanted = inputs.label_groups
    if wanted == "auto":
        wanted = "pareto" if grouped and judgements is not None else "none"
    if wanted == "none":
        return None
    if wanted == "pareto":
        if judgements is None:
            raise ConfigError("label groups by the Pareto rule need judgements: set inputs.judgements")
        ids, counts = label_frequencies(judgements)
        found = pareto_groups(number_labels(ids)[0], counts, inputs.head_share)
        # A label that nobody was given is as rare as can be.
        return _coded(ids, found, (TAIL, HEAD), TAIL, f"the groups of {inputs.judgements}")
    table = read_table(spark, wanted)
    require(table, wanted, ["label_id", "label_group"])
    labels = table.select("label_id", "label_group").toArrow()
    ids, groups = (labels[name].combine_chunks() for name in ("label_id", "label_group"))
    for name, column in (("label_id", ids), ("label_group", groups)):
        if column.null_count:
            raise InputError(f"{wanted}: column {name!r} holds {column.null_count:,} nulls")
    if not len(ids):
        raise InputError(f"{wanted} holds no labels")
    if len(ids.unique()) < len(ids):
        twice = [row["values"] for row in ids.value_counts().to_pylist() if row["counts"] > 1][:5]
        raise InputError(f"{wanted}: column 'label_id' holds labels twice, first: {', '.join(map(str, twice))}")
    names = _group_order(groups.unique().to_pylist())
    if ALL in names:
        raise InputError(f"{wanted}: column 'label_group': 'all' stands for all labels together and cannot be a group")
    return _coded(ids, np.array(groups.to_pylist(), dtype=object), names, None, wanted)


def _coded(ids: pa.Array, groups: np.ndarray, names: tuple[str, ...], unknown: str | None, source: str) -> LabelGroups:
    codes = np.array([names.index(group) for group in groups], np.int8)
    return LabelGroups(names, ids, codes, -1 if unknown is None else names.index(unknown), source)


def _folds(spark: SparkSession, source: str) -> DataFrame:
    """The fold that tests each text."""
    table = read_table(spark, source)
    require(table, source, ["fold", "text_id"])
    if "role" in table.columns:
        table = table.where("role = 'test'")
    if table.isEmpty():
        raise InputError(f"{source} names no test texts")
    return table.select("text_id", "fold")
