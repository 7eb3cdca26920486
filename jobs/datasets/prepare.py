"""Job `prepare`: a published dataset becomes the tables samples, labels and folds."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from fusion.labels import ALL, DatasetStatistics
from jobs.datasets.formats import check_settings
from jobs.datasets.readers import TEXT_KEY, RawDataset
from jobs.datasets.tables import (
    SHOWN,
    input_fingerprints,
    make_label_table,
    sampled,
    with_descriptions,
    with_folds,
    with_label_ids,
)
from jobs.engines.credentials import job
from jobs.runtime.log import log
from jobs.settings.config import Config
from jobs.settings.prepare import PaperStatistics, PrepareSettings
from jobs.storage.folders import ResultFolder, as_table, read_object
from jobs.storage.stages import import_closure, run_stage
from jobs.storage.workspace import FOLDS, LABELS, SAMPLES, STATISTICS, TEST, TRAIN, VALIDATION, Workspace

SCRATCH = "scratch"


@job
def run(spark: SparkSession, config: Config) -> dict[str, Any]:
    """Prepare the dataset, unless that was done before; its statistics."""
    settings, place = config.prepare, Workspace.of(config)
    reader = check_settings(settings)
    # Where the files lie, and what the paper says, does not change the tables.
    chosen = settings.model_dump(mode="json", exclude={"folder", "paper"})
    key = {"dataset": config.dataset, "settings": chosen, "inputs": input_fingerprints(spark, settings)}

    def build(folder: ResultFolder) -> dict[str, int]:
        raw = reader.read(spark, settings)
        statistics = {"dataset": config.dataset, **_write_tables(spark, raw, settings, folder)}
        folder.write_text(STATISTICS, json.dumps(statistics, indent=2) + "\n")
        return {name: statistics[name] for name in ("texts", "labels", "pairs")}

    run_stage("prepare", place.prepared, key, build, import_closure("jobs.datasets.prepare"))
    statistics: dict[str, Any] = read_object(place.statistics)
    return statistics


def summary(statistics: Mapping[str, Any], paper: PaperStatistics | None = None) -> str:
    """The dataset's row of the paper's table, the paper's own figures below ours, and the share of cold test pairs."""
    columns = ["texts", "labels", "tail_per_text", "head_per_text", "texts_per_label"]
    rows = [[statistics["dataset"], "ours", *(_figure(statistics[column]) for column in columns)]]
    if paper is not None:
        rows.append(["", "paper", *(_figure(getattr(paper, column)) for column in columns)])
    table = as_table(["dataset", "", "texts N", "labels L", "tail/text", "head/text", "texts/label"], rows)
    return "\n".join([table, *_cold_line(statistics.get("cold_shares", {}))])


def _cold_line(shares: Mapping[str, float]) -> list[str]:
    """How many test pairs only a retriever over the words of labels can find."""
    if not shares:
        return []
    groups = ", ".join(f"{100 * share:.1f}% of the {name} ones" for name, share in shares.items() if name != ALL)
    return [f"labels without training texts: {100 * shares[ALL]:.1f}% of the test pairs ({groups})"]


def _write_tables(
    spark: SparkSession, raw: RawDataset, settings: PrepareSettings, folder: ResultFolder
) -> dict[str, Any]:
    """Write samples, labels and folds; the figures about them."""
    texts, known = _read_once(spark, raw, settings, folder)
    kept, dropped = _kept(texts, settings)
    vocabulary = make_label_table(kept, known, raw.label_source, settings)
    labels = vocabulary.rows(spark)

    samples = with_label_ids(kept, labels.select("label", "label_id"))
    samples.sortWithinPartitions("text_id").write.parquet(f"{folder.uri}/{SAMPLES}")
    known_labels = with_descriptions(labels, known).repartition(1).sortWithinPartitions("label_id")
    known_labels.write.parquet(f"{folder.uri}/{LABELS}")
    kept.transform(with_folds(settings)).write.parquet(f"{folder.uri}/{FOLDS}")
    folds = _fold_figures(spark, settings, folder)
    # Every text is tested once.
    count = sum(fold["test"] for fold in folds)
    row = DatasetStatistics.of(count, vocabulary.frequencies, vocabulary.groups, settings.folds)
    figures = _figures(spark, row, vocabulary.unused, folder)
    folder.remove(SCRATCH)
    return {**figures, "read": dropped, "cold_shares": cold_shares(folds), "folds": folds}


def _read_once(
    spark: SparkSession, raw: RawDataset, settings: PrepareSettings, folder: ResultFolder
) -> tuple[DataFrame, DataFrame | None]:
    """The texts and the known labels, kept in scratch tables so that published files are read once."""
    scratch = f"{folder.uri}/{SCRATCH}"
    digest = F.md5("text")
    key = digest if settings.group_key == TEXT_KEY else F.col("key")
    texts = raw.texts.withColumns({"digest": digest, "key": key})
    texts.write.parquet(f"{scratch}/texts.parquet")
    texts = spark.read.parquet(f"{scratch}/texts.parquet")
    if raw.labels is None:
        return texts, None
    raw.labels.write.parquet(f"{scratch}/labels.parquet")
    labels = spark.read.parquet(f"{scratch}/labels.parquet")
    problems = labels.where(F.col("problem").isNotNull()).count()
    if problems:
        raise _unusable(labels, problems, "position", "labels")
    return texts, labels


def _unusable(rows: DataFrame, count: int, order: str, what: str) -> InputError:
    """The error for rows that a reader could not use."""
    bad = rows.where(F.col("problem").isNotNull())
    first = bad.orderBy(F.col(order).asc_nulls_first(), "problem").select("problem").limit(SHOWN).collect()
    problems = "".join(f"\n  {row['problem']}" for row in first)
    return InputError(f"{count:,} of the {what} cannot be used. First:{problems}")


def _kept(texts: DataFrame, settings: PrepareSettings) -> tuple[DataFrame, dict[str, int]]:
    """The texts of the dataset, and how many were read, left out, or repeat another."""
    has_text = F.coalesce(F.col("text").rlike(r"\S"), F.lit(False))
    has_labels = F.coalesce(F.size("labels"), F.lit(0)) > 0
    good = has_text & has_labels
    seen = texts.agg(
        F.count("problem").alias("problems"),
        F.count("*").alias("texts_read"),
        F.count_if(~has_text).alias("empty_texts"),
        F.count_if(has_text & ~has_labels).alias("texts_without_labels"),
        F.count_if(good).alias("good"),
        F.count_distinct("text_id").alias("ids"),
        F.count_distinct(F.when(good, F.col("digest"))).alias("distinct"),
    ).collect()[0]
    if seen["problems"]:
        raise _unusable(texts, seen["problems"], "position", "texts")
    if seen["ids"] < seen["texts_read"]:
        raise _repeated_ids(texts)
    counts = {name: int(seen[name]) for name in ("texts_read", "empty_texts", "texts_without_labels")}
    counts["duplicate_texts"] = int(seen["good"] - seen["distinct"])
    log(_reading_line(counts, settings))
    if not seen["good"]:
        raise InputError(
            f"the dataset is empty: of {counts['texts_read']:,} texts, {counts['empty_texts']:,} are empty and "
            f"{counts['texts_without_labels']:,} have no labels"
        )
    kept = texts.where(good).select("text_id", "text", "labels", "key", "digest")
    if settings.duplicates == "drop":
        first = kept.groupBy("digest").agg(F.min("text_id").alias("text_id"))
        kept = kept.join(first.select("text_id"), "text_id", "left_semi")
    return kept.transform(sampled(settings)), counts


def _reading_line(counts: Mapping[str, int], settings: PrepareSettings) -> str:
    """What was read, and what is worth knowing about it."""
    repeated = f"repeat another text ({'left out' if settings.duplicates == 'drop' else 'kept'})"
    notes = {"empty_texts": "empty (left out)", "texts_without_labels": "without labels (left out)"}
    notes["duplicate_texts"] = repeated
    known = "".join(f"; {counts[name]:,} {words}" for name, words in notes.items() if counts[name])
    chosen = f"; at most {settings.limit:,} are used (prepare.limit)" if settings.limit is not None else ""
    return f"prepare: {counts['texts_read']:,} texts read{known}{chosen}"


def _repeated_ids(texts: DataFrame) -> InputError:
    repeated = texts.groupBy("text_id").count().where("count > 1").orderBy("text_id")
    first = ", ".join(str(row["text_id"]) for row in repeated.limit(SHOWN).collect())
    return InputError(
        f"{repeated.count():,} text ids occur more than once (ids must be unique over all parts): {first}; "
        "without prepare.columns.text_id texts are numbered"
    )


def _figures(spark: SparkSession, row: DatasetStatistics, unused: int, folder: ResultFolder) -> dict[str, Any]:
    """Figures about texts and labels."""
    about = spark.read.parquet(f"{folder.uri}/{LABELS}").agg(
        F.count_if(F.col("name") != F.col("label")).alias("named_labels"),
        F.count_if(F.size("alt_names") > 0).alias("labels_with_alt_names"),
        F.count_if(F.trim("description") != "").alias("labels_with_description"),
    )
    return {
        "texts": row.texts,
        "labels": row.labels,
        "pairs": row.pairs,
        "head_labels": row.head_labels,
        "tail_per_text": row.tail_per_text,
        "head_per_text": row.head_per_text,
        "texts_per_label": row.texts_per_label,
        "labels_without_texts": unused,
        **about.collect()[0].asDict(),
    }


def _fold_figures(spark: SparkSession, settings: PrepareSettings, folder: ResultFolder) -> list[dict[str, Any]]:
    """The texts of each role, the labels that only test texts carry, and the cold pairs among the test pairs."""
    folds = spark.read.parquet(f"{folder.uri}/{FOLDS}")
    sizes = {(row["fold"], row["role"]): row["count"] for row in folds.groupBy("fold", "role").count().collect()}
    pairs = _pair_figures(spark, folder)
    figures = []
    for fold in range(settings.folds):
        roles = {role: int(sizes.get((fold, role), 0)) for role in (TRAIN, VALIDATION, TEST)}
        for role in (TRAIN, TEST):
            if not roles[role]:
                raise InputError(
                    f"fold {fold} has no {role} texts: too few texts (or group keys) for {settings.folds} folds; "
                    "set prepare.folds lower, or another prepare.seed"
                )
        if settings.validation_share and not roles[VALIDATION]:
            log(f"prepare: fold {fold} has no validation texts; early stopping cannot work there")
        figures.append({"fold": fold, **roles, **pairs[fold]})
    return figures


def _pair_figures(spark: SparkSession, folder: ResultFolder) -> dict[int, dict[str, Any]]:
    """By fold: labels that only test texts carry, and by label group the test pairs and the cold ones among them.

    A pair of a test text and a label is cold if no training text of the fold carries the label: a retriever can find it
    by the label's words alone.
    """
    folds, samples, labels = (spark.read.parquet(f"{folder.uri}/{name}") for name in (FOLDS, SAMPLES, LABELS))
    carried = folds.join(samples, "text_id").select("fold", "role", F.explode("label_ids").alias("label_id"))
    roles = {role: F.count_if(F.col("role") == role).alias(role) for role in (TRAIN, VALIDATION, TEST)}
    counted = carried.groupBy("fold", "label_id").agg(*roles.values())
    cold = F.col(TRAIN) == 0
    rows = (
        counted.join(labels.select("label_id", "label_group"), "label_id")
        .groupBy("fold", "label_group")
        .agg(
            F.count_if(cold & (F.col(VALIDATION) == 0)).alias("only_in_test"),
            F.sum(TEST).alias("test_pairs"),
            F.sum(F.when(cold, F.col(TEST)).otherwise(0)).alias("cold_pairs"),
        )
        .collect()
    )
    figures: dict[int, dict[str, Any]] = defaultdict(
        lambda: {"labels_only_in_test": 0, "test_pairs": {}, "cold_pairs": {}}
    )
    for row in sorted(rows):
        of_fold = figures[row["fold"]]
        of_fold["labels_only_in_test"] += int(row["only_in_test"])
        for name in ("test_pairs", "cold_pairs"):
            of_fold[name][row["label_group"]] = int(row[name])
    return figures


def cold_shares(folds: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The share of test pairs whose label no training text carries, over all folds: of all labels, and by group."""
    groups = sorted({group for fold in folds for group in fold["test_pairs"]})
    chosen = {ALL: groups, **{group: [group] for group in groups}}
    cold, tested = (
        {name: sum(fold[kind].get(group, 0) for fold in folds for group in some) for name, some in chosen.items()}
        for kind in ("cold_pairs", "test_pairs")
    )
    return {name: cold[name] / max(tested[name], 1) for name in chosen}


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
