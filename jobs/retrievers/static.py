"""The stages of `static` and `static-texts`: tokens of texts and labels, a model for each fold, and the candidates.

`static/tokens` holds the tokens of all texts and of the labels' words, `static/model` the model of each fold with the
vectors of its labels and training texts. Both retrievers share these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.datasets.tables import DatasetTables, open_tables
from jobs.retrievers.models import located_model
from jobs.retrievers.stages import keep_reports, run_folds, write_lists
from jobs.settings.config import Config
from jobs.settings.static import StaticSettings
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import import_closure, input_fingerprint, run_stage, stage_folder
from jobs.storage.workspace import Workspace
from udfs.lists import LISTS_SCHEMA
from udfs.retrieval.bm25 import Scoring
from udfs.retrieval.folds import FoldSource
from udfs.retrieval.static import (
    LABELS,
    TOKENS_SCHEMA,
    StaticSearch,
    StaticStart,
    StaticWork,
    first_vectors,
    open_tokenizer,
    search_static,
    tokenize_texts,
    train_fold,
)
from udfs.stores.addresses import absolute

TOKENIZING = ("udfs.retrieval.static",)
"""The code that decides what a text's tokens are."""
LEARNING = ("udfs.retrieval.static",)
"""This and what it imports decide what is learned."""
ENTRY = "jobs.retrievers.static"
"""This module and what it imports decide what is listed."""
TEXT_TOKENS, LABEL_TOKENS = "texts.parquet", "labels.parquet"
TRAINED = {"learning_rate", "epochs", "patience", "train_batch", "extra_labels", "label_text", "frequency_bias"}


@dataclass(frozen=True)
class StaticRun:
    """A run of the static retrievers: its settings, its inputs and the place it works in."""

    spark: SparkSession
    settings: StaticSettings
    prepared: DatasetTables
    place: Workspace

    @property
    def tokens(self) -> str:
        return self.place.retriever_stage(LABELS, "tokens")

    @property
    def model(self) -> str:
        return self.place.retriever_stage(LABELS, "model")


def run(spark: SparkSession, config: Config, retriever: str) -> str:
    """Retrieve, and return the folder of the candidates."""
    settings = config.retrievers.settings(retriever, StaticSettings)
    place = Workspace.of(config)
    start = static_start(settings)
    prepared = open_tables(spark, place.prepared, config.spark.partitions, config.validation_candidates)
    work = StaticRun(spark, settings, prepared, place)
    _tokens_stage(work, start)
    _model_stage(work, start)
    return _lists_stage(work, retriever)


def static_start(settings: StaticSettings) -> StaticStart:
    """The model that token vectors start from."""
    return StaticStart(*located_model(settings.model), settings.max_length)


def _tokens_stage(work: StaticRun, start: StaticStart) -> None:
    settings, prepared = work.settings, work.prepared
    key = {
        "prepared": prepared.fingerprint,
        "model": [start.fingerprint, start.max_length],
        "label_text": settings.label_text,
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        # A model without a tokenizer is better reported here than by a worker.
        open_tokenizer(start)
        words = F.concat_ws(". ", *(F.concat_ws(", ", column) for column in settings.label_text))
        tables = {
            TEXT_TOKENS: prepared.samples.select(F.col("text_id").alias("id"), "text"),
            LABEL_TOKENS: prepared.labels.select(F.col("label_id").cast("long").alias("id"), words.alias("text")),
        }
        for name, rows in tables.items():
            tokens = prepared.repartitioned(rows).mapInArrow(tokenize_texts(start), TOKENS_SCHEMA)
            tokens.write.parquet(f"{folder.uri}/{name}")
        tokens = work.spark.read.parquet(f"{folder.uri}/{TEXT_TOKENS}")
        texts, distinct = tokens.agg(F.count("*"), F.sum(F.size("tokens"))).collect()[0]
        return {"texts": texts, "distinct_tokens": int(distinct or 0)}

    run_stage("static tokens", work.tokens, key, build, TOKENIZING)


def _model_stage(work: StaticRun, start: StaticStart) -> None:
    settings, prepared = work.settings, work.prepared
    key = {
        "tokens": input_fingerprint(work.tokens),
        "prepared": prepared.fingerprint,
        "static": settings.model_dump(mode="json", include=TRAINED),
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        first_vectors(start)
        tokens = absolute(stage_folder(work.tokens))
        chosen = StaticWork(
            f"{tokens}/{TEXT_TOKENS}",
            f"{tokens}/{LABEL_TOKENS}",
            start,
            settings.training,
            settings.frequency_bias,
            prepared.groups,
        )
        sources = [
            FoldSource(fold, absolute(stage_folder(work.place.prepared)), (), (), False) for fold in prepared.folds
        ]
        return keep_reports(folder, run_folds(work.spark, sources, train_fold(folder.uri, chosen)))

    run_stage("train static", work.model, key, build, import_closure(*LEARNING))


def _lists_stage(work: StaticRun, retriever: str) -> str:
    settings, prepared, candidates = work.settings, work.prepared, work.place.candidates(retriever)
    trained = input_fingerprint(work.model)
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    near = {} if retriever == LABELS else {"neighbours": settings.neighbours, "aggregation": settings.aggregation}
    key = {"model": trained, "top": settings.top, **near, "roles": prepared.listed_roles}

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        tokens = work.spark.read.parquet(f"{stage_folder(work.tokens)}/{TEXT_TOKENS}").withColumnRenamed(
            "id", "text_id"
        )
        search = StaticSearch(retriever, absolute(stage_folder(work.model)), trained, prepared.groups, scoring)

        def ranked(role: str) -> DataFrame:
            rows = prepared.fold_texts(role).join(tokens, "text_id").select("fold", "text_id", "tokens", "counts")
            # A fold's texts come together, so that a worker opens each model once.
            together = prepared.repartitioned(rows).sortWithinPartitions("fold", "text_id")
            return together.mapInArrow(search_static(search), LISTS_SCHEMA)

        return write_lists(prepared, folder, ranked)

    run_stage(f"{retriever} candidates", candidates, key, build, import_closure(ENTRY))
    return candidates
