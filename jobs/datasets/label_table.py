"""The labels of a dataset: numbered, counted, and divided into head and tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from fusion.label_groups import pareto_groups
from fusion.types import Array
from jobs.runtime.log import log
from jobs.settings.prepare import PrepareSettings
from udfs.label_ids import forms_warning, id_order, in_two_forms

SHOWN = 5


@dataclass
class LabelTable:
    """Label n of the dataset is row n: its label as published, its frequency and its group."""

    labels: pa.Array
    frequencies: Array
    groups: Array
    unused: int
    """How many labels no text carries, whether kept or not."""

    def rows(self, spark: SparkSession) -> DataFrame:
        table = {
            "label_id": pa.array(np.arange(len(self.labels), dtype=np.int32)),
            "label": self.labels,
            "frequency": pa.array(self.frequencies, pa.int64()),
            "label_group": pa.array(self.groups.tolist(), pa.string()),
        }
        return spark.createDataFrame(pa.table(table))


def make_label_table(texts: DataFrame, known: DataFrame | None, source: str, settings: PrepareSettings) -> LabelTable:
    """Number the labels: in the order of the label file, or else by themselves (numbers first, by value)."""
    pairs = texts.select(F.explode("labels").alias("label"))
    used = pairs.groupBy("label").agg(F.count("*").alias("frequency")).toArrow()
    used_labels = used["label"].combine_chunks()
    if known is None:
        labels = _sorted_labels(used_labels)
    else:
        labels = _listed_labels(known.select("position", "label").toArrow(), source)
        unknown = used_labels.filter(pc.invert(pc.is_in(used_labels, value_set=labels)))
        if len(unknown):
            raise _unknown_labels(texts, unknown, source)
    for same in in_two_forms(labels.to_pylist())[:SHOWN]:
        log(forms_warning(same, dict.fromkeys(same, source or "the texts")))
    frequencies = _frequencies(labels, used_labels, used["frequency"].to_numpy())
    unused = int((frequencies == 0).sum())
    if settings.unused_labels == "drop":
        labels, frequencies = labels.filter(pa.array(frequencies > 0)), frequencies[frequencies > 0]
    groups = pareto_groups(np.arange(len(labels)), frequencies, settings.head_share)
    return LabelTable(labels, frequencies, groups, unused)


def with_descriptions(vocabulary: DataFrame, known: DataFrame | None) -> DataFrame:
    """The table of labels: what is known about each beside its number, frequency and group. No nulls."""
    if known is None:
        rows = vocabulary.withColumns(
            {"name": F.lit(""), "alt_names": F.array().cast("array<string>"), "description": F.lit("")}
        )
    else:
        rows = vocabulary.join(known.drop("position", "problem"), "label", "left")
    name = F.coalesce(F.trim("name"), F.lit(""))
    others = F.filter(F.coalesce("alt_names", F.array().cast("array<string>")), lambda other: F.trim(other) != "")
    return rows.select(
        "label_id",
        "label",
        F.when(name == "", F.col("label")).otherwise(name).alias("name"),
        others.alias("alt_names"),
        F.coalesce("description", F.lit("")).alias("description"),
        "frequency",
        "label_group",
    )


def with_label_ids(texts: DataFrame, vocabulary: DataFrame) -> DataFrame:
    """Texts (text_id, text, labels) with the numbers of their labels and words (text_id, text, label_ids, words)."""
    pairs = texts.select("text_id", F.explode("labels").alias("label")).join(vocabulary, "label")
    numbers = pairs.groupBy("text_id").agg(F.array_sort(F.collect_set("label_id")).alias("label_ids"))
    words = F.regexp_count("text", F.lit(r"\S+")).alias("words")
    return texts.join(numbers, "text_id").select("text_id", "text", "label_ids", words)


def _frequencies(labels: pa.Array, used_labels: pa.Array, counts: Array) -> Array:
    """How many texts carry each label; 0 for those that are not in use."""
    place = pc.index_in(labels, value_set=used_labels)
    return np.append(counts, 0)[pc.fill_null(place, len(used_labels)).to_numpy()].astype(np.int64)


def _sorted_labels(labels: pa.Array) -> pa.Array:
    return pa.array(sorted(labels.to_pylist(), key=id_order), pa.string())


def _listed_labels(listed: pa.Table, source: str) -> pa.Array:
    """The labels of a label file in its order, each once."""
    # The rows of a catalog table have no positions.
    ordered = listed if listed["position"].null_count else listed.sort_by("position")
    labels = ordered["label"].combine_chunks()
    counts = labels.value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(repeated):
        # In the order in which they first occur, which is that of the file.
        first = ", ".join(map(repr, repeated[:SHOWN].to_pylist()))
        raise InputError(
            f"{source}: {len(repeated):,} labels are listed more than once (or with different names): {first}"
        )
    return _sorted_labels(labels) if listed["position"].null_count else labels


def _unknown_labels(texts: DataFrame, labels: pa.Array, source: str) -> InputError:
    """The error for labels of texts that the label file lacks."""
    lines = []
    for label in sorted(labels.to_pylist(), key=id_order)[:SHOWN]:
        where = texts.where(F.array_contains("labels", label)).agg(F.min("text_id")).collect()[0][0]
        lines.append(f"\n  {label!r}, first at text {where}")
    return InputError(
        f"{source} has no name for {len(labels):,} labels that texts carry; add them there, or leave out "
        f"prepare.label_file. First:{''.join(lines)}"
    )
