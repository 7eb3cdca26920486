"""Job `retrieve_sparse`: BM25 candidates of every fold's test texts, from an index of its training texts alone.

For each fold two stages, so that a run that was stopped goes on where it was: `bm25/index/fold=N` holds the index,
`bm25/lists/fold=N` the ranked labels of the test texts. `candidates/bm25` is all folds together. The retriever
`bm25-labels` has the same stages below its own name.
"""

from __future__ import annotations

from functools import reduce
from importlib.metadata import version
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from jobs.config import Config
from jobs.datasets.tables import DatasetTables, open_tables
from jobs.runtime.code import import_closure
from jobs.runtime.credentials import job
from jobs.runtime.folders import ResultFolder
from jobs.runtime.progress import Progress
from jobs.runtime.stages import input_fingerprint, run_stage, stage_folder
from jobs.runtime.workspace import LISTS, Workspace
from jobs.settings.sparse import SparseSettings
from udfs.bm25 import RETRIEVER, Scoring, score_texts
from udfs.bm25_index import COUNTS_SCHEMA, LABEL, ROWS_SCHEMA, TEXT, Formula, build_index, tokenize_rows
from udfs.candidate_rows import LISTS_SCHEMA
from udfs.storage import absolute

ENTRY = "jobs.retrieve_sparse"
"""This module and what it imports decide what the stages write."""
SLICE = 50_000
"""Texts scored between two lines about the progress."""


@job
def run(spark: SparkSession, config: Config, retriever: str = RETRIEVER) -> str:
    """Retrieve, and return the folder of the candidates, which carry the name of the retriever."""
    settings = config.sparse
    settings.tokenizer.tokenizer.check()
    place = Workspace.of(config)
    prepared = open_tables(spark, place.prepared, config.spark.partitions)
    progress = Progress(retriever, sum(prepared.test_texts.values()), "texts scored")
    lists = []
    with progress:
        for fold in prepared.folds:
            stages = FoldStages(retriever, fold, place.bm25_index(fold, retriever), place.bm25_lists(fold, retriever))
            index_stage(prepared, settings, stages)
            lists_stage(prepared, settings, stages, progress)
            lists.append(stages.lists_path)

    def join_folds(folder: ResultFolder) -> dict[str, int]:
        tables = [spark.read.schema(LISTS_SCHEMA).parquet(f"{stage_folder(path)}/{LISTS}") for path in lists]
        rows = prepared.repartitioned(reduce(DataFrame.unionByName, tables))
        rows.sortWithinPartitions("text_id", "fold", "label_group").write.parquet(f"{folder.uri}/{LISTS}")
        return {"lists": spark.read.parquet(f"{folder.uri}/{LISTS}").count()}

    candidates = place.candidates(retriever)
    key = {"lists": [input_fingerprint(path) for path in lists]}
    run_stage(f"{retriever} candidates", candidates, key, join_folds, import_closure(ENTRY))
    return candidates


class FoldStages(NamedTuple):
    """The two stages of a retriever in a fold, and where they lie."""

    retriever: str
    fold: int
    index_path: str
    lists_path: str


def index_stage(prepared: DatasetTables, settings: SparseSettings, stages: FoldStages) -> None:
    """Build the index of a fold."""
    fold = stages.fold
    formula = Formula(settings.mode, settings.k1, settings.b)
    key: dict[str, Any] = {
        "prepared": prepared.fingerprint,
        "fold": fold,
        "sparse": settings.model_dump(mode="json", include={"mode", "k1", "b", "tokenizer"}),
        "bm25s": version("bm25s"),
    }

    def build(folder: ResultFolder) -> dict[str, int]:
        rows = prepared.repartitioned(index_rows(prepared, fold, settings))
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
                f"fold {fold}: no training text has a token; loosen sparse.tokenizer "
                f"(min_length is {settings.tokenizer.min_length}), or look at samples.parquet"
            )
        return counts

    run_stage(f"{stages.retriever} index of fold {fold}", stages.index_path, key, build, import_closure(ENTRY))


def index_rows(prepared: DatasetTables, fold: int, settings: SparseSettings) -> DataFrame:
    """What an index is made of: the labels, and the training texts of the fold. No other text gets in."""
    own_words = F.concat_ws("\n", "name", "alt_names", "description")
    nothing = F.lit(None)
    labels = prepared.labels.select(
        F.lit(LABEL).alias("kind"),
        F.col("label_id").cast("long").alias("id"),
        (own_words if settings.mode == "labels" else nothing).cast("string").alias("text"),
        nothing.cast("array<int>").alias("label_ids"),
        "label_group",
    )
    texts = prepared.texts(fold, "train").select(
        F.lit(TEXT).alias("kind"),
        F.col("text_id").alias("id"),
        "text",
        F.col("label_ids").cast("array<int>").alias("label_ids"),
        nothing.cast("string").alias("label_group"),
    )
    return labels.unionByName(texts)


def lists_stage(prepared: DatasetTables, settings: SparseSettings, stages: FoldStages, progress: Progress) -> None:
    """Rank the labels for the test texts of a fold."""
    retriever, fold, index, path = stages
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    built = input_fingerprint(index)
    key = {
        "index": built,
        "sparse": settings.model_dump(mode="json", include={"neighbours", "aggregation", "top"}),
    }
    texts = prepared.test_texts[fold]

    def build(folder: ResultFolder) -> dict[str, int]:
        place = absolute(stage_folder(index))
        score = score_texts(place, built, fold, settings.tokenizer.tokenizer, scoring, retriever)
        queries = prepared.texts(fold, "test").select("text_id", "text")
        slices = max(1, -(-texts // SLICE))
        for number in range(slices):
            chosen = queries.where(F.pmod(F.xxhash64("text_id"), F.lit(slices)) == number)
            lists = prepared.repartitioned(chosen).mapInArrow(score, LISTS_SCHEMA)
            lists.write.mode("append").parquet(f"{folder.uri}/{LISTS}")
            progress.add((number + 1) * texts // slices - number * texts // slices)
        written = queries.sparkSession.read.parquet(f"{folder.uri}/{LISTS}")
        lists_written, texts_with_lists = written.agg(F.count("*"), F.countDistinct("text_id")).collect()[0]
        return {"texts": texts, "lists": lists_written, "texts_without_candidates": texts - texts_with_lists}

    if not run_stage(f"{retriever} lists of fold {fold}", path, key, build, import_closure(ENTRY)):
        progress.skip(texts)


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("retrieve_sparse")
