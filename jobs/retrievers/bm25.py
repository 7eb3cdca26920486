"""Job `retrieve_sparse`: BM25 candidates of every fold's test and validation texts, from an index of its training
texts alone.

For each fold two stages, so that a run that was stopped goes on where it was: `bm25/index/fold=N` holds the index,
`bm25/lists/fold=N` the ranked labels of the test texts and, as a stage of their own, those of the validation texts lie
in `bm25/validation_lists/fold=N`. `candidates/bm25` is all folds together. The retriever
`bm25-labels` has the same stages below its own name.
"""

from __future__ import annotations

from functools import reduce
from importlib.metadata import version
from typing import Any, Literal, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from jobs.datasets.tables import DatasetTables, open_tables
from jobs.engines.credentials import job
from jobs.retrievers.stages import write_lists
from jobs.runtime.log import Progress
from jobs.settings.bm25 import Bm25Settings
from jobs.settings.config import Config
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import import_closure, input_fingerprint, run_stage, stage_folder
from jobs.storage.workspace import LISTS, TEST, TRAIN, Workspace
from udfs.lists import LISTS_SCHEMA
from udfs.retrieval.bm25 import (
    COUNTS_SCHEMA,
    LABEL,
    RETRIEVER,
    ROWS_SCHEMA,
    TEXT,
    Formula,
    Scoring,
    build_index,
    score_texts,
    tokenize_rows,
)
from udfs.stores.addresses import absolute

LABEL_DOCUMENTS = "bm25-labels"
"""The retriever that indexes one document per label; the other one indexes the training texts."""
ENTRY = "jobs.retrievers.bm25"
"""This module and what it imports decide what the stages write."""
SLICE = 50_000
"""Texts scored between two lines about the progress."""


@job
def run(spark: SparkSession, config: Config, retriever: str = RETRIEVER) -> str:
    """Retrieve, and return the folder of the candidates, which carry the name of the retriever."""
    settings = config.retrievers.settings(retriever, Bm25Settings)
    settings.tokenizer.tokenizer.check()
    place = Workspace.of(config)
    prepared = open_tables(spark, place.prepared, config.spark.partitions, config.validation_candidates)
    roles = prepared.listed_roles
    progress = Progress(retriever, sum(sum(prepared.role_sizes[role].values()) for role in roles), "texts scored")
    lists: dict[str, list[str]] = {role: [] for role in roles}
    with progress:
        for fold in prepared.folds:
            stages = FoldStages(retriever, fold, place.bm25_index(fold, retriever))
            index_stage(prepared, settings, stages)
            for role in roles:
                path = place.bm25_lists(fold, retriever, role)
                lists_stage(prepared, settings, stages, role, path, progress)
                lists[role].append(path)

    def all_folds(role: str) -> DataFrame:
        tables = [spark.read.schema(LISTS_SCHEMA).parquet(f"{stage_folder(path)}/{LISTS}") for path in lists[role]]
        rows = prepared.repartitioned(reduce(DataFrame.unionByName, tables))
        return rows.sortWithinPartitions("text_id", "fold", "label_group")

    def join_folds(folder: ResultFolder) -> dict[str, int]:
        return write_lists(prepared, folder, all_folds)

    candidates = place.candidates(retriever)
    key = {"lists": {role: [input_fingerprint(path) for path in paths] for role, paths in lists.items()}}
    run_stage(f"{retriever} candidates", candidates, key, join_folds, import_closure(ENTRY))
    return candidates


def run_labels(spark: SparkSession, config: Config) -> str:
    """BM25 over one document per label."""
    return run(spark, config, LABEL_DOCUMENTS)


class FoldStages(NamedTuple):
    """The stages of a retriever in a fold, and where their index lies."""

    retriever: str
    fold: int
    index_path: str

    @property
    def mode(self) -> Literal["texts", "labels"]:
        return "labels" if self.retriever == LABEL_DOCUMENTS else "texts"


def index_stage(prepared: DatasetTables, settings: Bm25Settings, stages: FoldStages) -> None:
    """Build the index of a fold."""
    fold = stages.fold
    formula = Formula(stages.mode, settings.k1, settings.b)
    key: dict[str, Any] = {
        "prepared": prepared.fingerprint,
        "fold": fold,
        "documents": stages.mode,
        "bm25": settings.model_dump(mode="json", include={"k1", "b", "tokenizer"}),
        "bm25s": version("bm25s"),
    }

    def build(folder: ResultFolder) -> dict[str, int]:
        rows = prepared.repartitioned(index_rows(prepared, fold, stages.mode))
        tokens = rows.mapInArrow(tokenize_rows(settings.tokenizer.tokenizer), ROWS_SCHEMA)
        # One worker takes all rows as a stream, in an order that no partitioning can change.
        ordered = tokens.repartition(1).sortWithinPartitions("kind", "id")
        built = ordered.mapInArrow(build_index(folder.uri, formula, prepared.groups), COUNTS_SCHEMA).collect()
        counts = built[0].asDict()
        text, label = counts.pop("stray_text"), counts.pop("stray_label")
        if text is not None:
            raise InputError(
                f"samples.parquet: text_id {text} carries label_id {label}, which is not in labels.parquet. "
                "Run 'xmtc-fusion prepare' again."
            )
        if not counts["terms"]:
            raise InputError(
                f"fold {fold}: no training text has a token; loosen retrievers.{stages.retriever}.tokenizer "
                f"(min_length is {settings.tokenizer.min_length}), or look at samples.parquet"
            )
        return counts

    run_stage(f"{stages.retriever} index of fold {fold}", stages.index_path, key, build, import_closure(ENTRY))


def index_rows(prepared: DatasetTables, fold: int, mode: str) -> DataFrame:
    """What an index is made of: the labels, and the training texts of the fold. No other text gets in."""
    own_words = F.concat_ws("\n", "name", "alt_names", "description")
    nothing = F.lit(None)
    labels = prepared.labels.select(
        F.lit(LABEL).alias("kind"),
        F.col("label_id").cast("long").alias("id"),
        (own_words if mode == "labels" else nothing).cast("string").alias("text"),
        nothing.cast("array<int>").alias("label_ids"),
        "label_group",
    )
    texts = prepared.texts(fold, TRAIN).select(
        F.lit(TEXT).alias("kind"),
        F.col("text_id").alias("id"),
        "text",
        F.col("label_ids").cast("array<int>").alias("label_ids"),
        nothing.cast("string").alias("label_group"),
    )
    return labels.unionByName(texts)


def lists_stage(
    prepared: DatasetTables, settings: Bm25Settings, stages: FoldStages, role: str, path: str, progress: Progress
) -> None:
    """Rank the labels for the texts that have a role in a fold, and keep the lists in the stage `path`."""
    retriever, fold, index = stages
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    built = input_fingerprint(index)
    key = {
        "index": built,
        "bm25": settings.model_dump(mode="json", include={"neighbours", "aggregation", "top"}),
    }
    texts = prepared.role_sizes[role][fold]

    def build(folder: ResultFolder) -> dict[str, int]:
        place = absolute(stage_folder(index))
        score = score_texts(place, built, fold, settings.tokenizer.tokenizer, scoring, retriever)
        queries = prepared.texts(fold, role).select("text_id", "text")
        slices = max(1, -(-texts // SLICE))
        for number in range(slices):
            chosen = queries.where(F.pmod(F.xxhash64("text_id"), F.lit(slices)) == number)
            lists = prepared.repartitioned(chosen).mapInArrow(score, LISTS_SCHEMA)
            lists.write.mode("append").parquet(f"{folder.uri}/{LISTS}")
            progress.add((number + 1) * texts // slices - number * texts // slices)
        written = queries.sparkSession.read.parquet(f"{folder.uri}/{LISTS}")
        lists_written, texts_with_lists = written.agg(F.count("*"), F.countDistinct("text_id")).collect()[0]
        return {"texts": texts, "lists": lists_written, "texts_without_candidates": texts - texts_with_lists}

    name = f"{retriever} {'lists' if role == TEST else f'{role} lists'} of fold {fold}"
    if not run_stage(name, path, key, build, import_closure(ENTRY)):
        progress.skip(texts)
