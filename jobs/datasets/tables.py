"""The tables of a prepared dataset: labels, folds and samples, and the files they were made from."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError, SetupError
from fusion.labels import pareto_groups
from fusion.types import Array
from jobs.datasets.records import TABLE
from jobs.engines.errors import SPARK_ERRORS
from jobs.inputs.lines import reading_error, shown, source_of
from jobs.runtime.log import log
from jobs.settings.prepare import PrepareSettings, paths_of
from jobs.storage.stages import input_fingerprint
from jobs.storage.workspace import TEST, TRAIN, VALIDATION
from udfs.lists import forms_warning, id_order, in_two_forms
from udfs.stores.addresses import for_spark
from udfs.stores.objects import Listed, content_digest

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


SHARES = 1_000_000
"""How finely a share of the texts can be set."""


def hashed(seed: int, purpose: str, *values: Column) -> Column:
    """A number that looks random, from the seed, what it is for, and some values."""
    return F.xxhash64(F.lit(seed).cast("bigint"), F.lit(purpose), *values)


def tested_in(settings: PrepareSettings) -> Column:
    """The fold in which a text is tested."""
    return F.pmod(hashed(settings.seed, "fold", _unit()), F.lit(settings.folds)).cast("int")


def with_folds(settings: PrepareSettings) -> Callable[[DataFrame], DataFrame]:
    """From texts (text_id, key) to one row per fold and text (fold, text_id, role)."""
    # The validation texts of a fold are a share of its training part, drawn anew for each fold. Texts of one key
    # are drawn together: a validation text that is nearly a training text would stop training too late.
    share = round(settings.validation_share * SHARES)
    held_out = F.pmod(hashed(settings.seed, "validation", F.col("fold"), _unit()), F.lit(SHARES)) < share
    role = F.when(F.col("fold") == F.col("test_fold"), TEST).when(held_out, VALIDATION).otherwise(TRAIN).alias("role")

    def transform(texts: DataFrame) -> DataFrame:
        every = F.explode(F.sequence(F.lit(0), F.lit(settings.folds - 1))).alias("fold")
        return texts.select("text_id", "key", tested_in(settings).alias("test_fold"), every).select(
            "fold", "text_id", role
        )

    return transform


def sampled(settings: PrepareSettings) -> Callable[[DataFrame], DataFrame]:
    """At most `limit` texts: those with the smallest hashes."""

    def transform(texts: DataFrame) -> DataFrame:
        if settings.limit is None:
            return texts
        order = hashed(settings.seed, "limit", F.col("text_id"))
        chosen = texts.select("text_id").orderBy(order, "text_id").limit(settings.limit)
        return texts.join(chosen, "text_id", "left_semi")

    return transform


def _unit() -> Column:
    """What stays together: the texts of a key, or a single text. Prefixed, so that a key is never another's id."""
    return F.coalesce(F.concat(F.lit("key "), "key"), F.concat(F.lit("text "), F.col("text_id").cast("string")))


def input_fingerprints(spark: SparkSession, settings: PrepareSettings) -> dict[str, list[str]]:
    """By the names in the settings, so that another content is noticed and another folder is not.

    A file of the driver's machine is known by its bytes, one in a store by the store's tag, another by size and time. A
    catalog table is known by its name only.
    """
    wanted = [*(part.texts for part in settings.parts), *(part.labels for part in settings.parts), settings.label_file]
    names = [name for names in wanted if names for name in ([names] if isinstance(names, str) else names)]
    return {name: _fingerprint(spark, paths_of(settings, name)[0]) for name in names}


def _fingerprint(spark: SparkSession, path: str) -> list[str]:
    if path.startswith(TABLE):
        return [path]
    try:
        # Spark resolves patterns and addresses of any kind; the contents are not read.
        files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(for_spark(path))
        rows = files.select("path", "length", "modificationTime").collect()
    except SPARK_ERRORS as error:
        raise reading_error(source_of([path]), error) from None
    digests = []
    for file, length, changed in sorted(tuple(row) for row in rows):
        local = Path(shown(file))
        digests.append(input_fingerprint(str(local)) if local.is_file() else _object_tag(file, length, str(changed)))
    return digests


def _object_tag(file: str, length: int, changed: str) -> str:
    """The store's own tag of an object; its size and time where only Spark reaches it."""
    with suppress(OSError, SetupError):
        return content_digest(shown(file), Listed("", length, 0.0))
    return f"{length} {changed}"
