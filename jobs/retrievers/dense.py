"""Job `retrieve_dense`: the labels nearest to every fold's test and validation texts, head and tail separately.

`dense/index` holds the label vectors of each fold, made of names and of the fold's training texts; `candidates/dense`
the ranked labels of these texts. What `train_dense` has not done yet is done first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from fusion.retrieval.contrastive import dense_package
from jobs.engines.credentials import job
from jobs.retrievers import vectors as train_dense
from jobs.retrievers.stages import run_folds, write_lists
from jobs.retrievers.vectors import DenseWork, Vectors, base_encoder
from jobs.runtime.log import log
from jobs.settings.config import Config
from jobs.settings.dense import DenseSettings
from jobs.storage.folders import ResultFolder, read_object
from jobs.storage.stages import import_closure, input_fingerprint, run_stage, stage_folder
from jobs.storage.versions import STAGE_FILE
from jobs.storage.workspace import TEST, TRAIN, VECTORS, role_lists
from udfs.lists import LISTS_SCHEMA
from udfs.retrieval.encode import MODEL_FOLDER
from udfs.retrieval.vectors import HNSW, HNSW_FROM, RETRIEVER, Index, Search, build_index, search_labels
from udfs.stores.addresses import absolute

ENTRY = "jobs.retrievers.dense"
"""This module and what it imports decide what the stages write."""
RECALL_TEXTS = 200
"""Texts of a fold on which the recall of HNSW is measured."""
SEARCH = "search"
"""The field of the index's stage.json that says, by label group, how its labels are searched."""
FoldVectors = Mapping[int, tuple[Vectors, Vectors]]
"""The vectors of texts and of labels, by fold."""


@job
def run(spark: SparkSession, config: Config) -> str:
    """Retrieve, and return the folder of the candidates."""
    # Encoding takes hours; what comes after it should not fail for want of a package.
    dense_package("faiss")
    work = train_dense.run(spark, config, RETRIEVER)
    vectors = fold_vectors(work)
    _index_stage(work, vectors)
    _lists_stage(work, vectors)
    return work.place.candidates(RETRIEVER)


def fold_vectors(work: DenseWork, train_texts: bool = False) -> FoldVectors:
    """The vectors that each fold searches with: those of the untrained model, or of the model tuned for the fold.

    The latter are those of the texts that are listed, and of training texts where labels are made of them or they are
    asked for.
    """
    if work.vectors is not None:
        return dict.fromkeys(work.prepared.folds, work.vectors)
    trained = input_fingerprint(work.place.dense_model)
    vectors = {}
    for fold in work.prepared.folds:
        model = absolute(f"{stage_folder(work.place.dense_model)}/fold={fold}/{MODEL_FOLDER}")
        encoder = replace(base_encoder(work.settings), model=model, fingerprint=f"{trained}/{fold}")
        folder = work.place.fold_vectors(fold)
        roles = [*work.prepared.listed_roles, *([TRAIN] if train_texts or work.settings.train_texts else [])]
        texts = reduce(DataFrame.unionByName, [work.prepared.texts(fold, role) for role in roles])
        rows = texts.select(F.col("text_id").alias("id"), "text")
        encoded = train_dense.encode_table(work, rows, encoder, folder, "texts")
        vectors[fold] = encoded, train_dense.encode_label_words(work, encoder, folder)
    return vectors


def wanted_index(settings: DenseSettings) -> Index:
    """How vectors are indexed."""
    threshold = {"auto": HNSW_FROM, "exact": None, "hnsw": 1}[settings.search]
    return Index(threshold)


def heads_folder(work: DenseWork) -> str | None:
    """Where the heads of all folds are; None if vectors are searched as they are."""
    return absolute(stage_folder(work.place.dense_model)) if work.settings.train == "projection" else None


def _index_stage(work: DenseWork, vectors: FoldVectors) -> None:
    settings, heads, index = work.settings, heads_folder(work), wanted_index(work.settings)
    trained = input_fingerprint(work.place.dense_model) if heads else ""
    key = {
        "prepared": work.prepared.fingerprint,
        "vectors": {str(fold): [texts.fingerprint, labels.fingerprint] for fold, (texts, labels) in vectors.items()},
        "model": trained,
        "label_text": settings.label_text,
        "index": [index.hnsw_from, index.links, index.build],
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        sources = [
            replace(work.source(fold, *vectors[fold]), model=heads and f"{heads}/fold={fold}") for fold in vectors
        ]
        reports = run_folds(work.spark, sources, build_index(folder.uri, index, trained))
        labels: dict[str, int] = defaultdict(int)
        search: dict[str, str] = {}
        for report in reports.values():
            for group, figures in report.items():
                labels[f"{group}_labels"] += figures["labels"]
                # A group may pass the threshold in one fold only.
                search[group] = HNSW if HNSW in (search.get(group), figures["search"]) else figures["search"]
        return {"folds": len(reports), **labels, SEARCH: search}

    run_stage("dense index", work.place.dense_index, key, build, import_closure(ENTRY))


def searched_texts(work: DenseWork, vectors: FoldVectors, role: str) -> DataFrame:
    """The vectors of the texts with a role: fold, text_id, vector."""
    folds_of = defaultdict(list)
    for fold, (texts, _) in vectors.items():
        folds_of[texts.paths].append(fold)
    rows = []
    for paths, folds in folds_of.items():
        chosen = work.prepared.fold_texts(role).where(F.col("fold").isin(folds))
        table = work.spark.read.parquet(*(f"{stage_folder(path)}/{VECTORS}" for path in paths))
        columns = table.select(F.col("id").alias("text_id"), "vector")
        rows.append(chosen.join(columns, "text_id"))
    return reduce(DataFrame.unionByName, rows).select("fold", "text_id", "vector")


def _lists_stage(work: DenseWork, vectors: FoldVectors) -> None:
    settings, index = work.settings, work.place.dense_index
    built = input_fingerprint(index)
    groups, heads = work.prepared.groups, heads_folder(work)
    search = Search(absolute(stage_folder(index)), built, groups, heads, settings.top)
    key = {
        "index": built,
        "top": settings.top,
        "effort": search.effort,
        "roles": work.prepared.listed_roles,
    }

    def ranked(role: str) -> DataFrame:
        return by_fold(work, searched_texts(work, vectors, role)).mapInArrow(search_labels(search), LISTS_SCHEMA)

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        counts = write_lists(work.prepared, folder, ranked)
        if not _approximate(index):
            return counts
        lists = work.spark.read.parquet(role_lists(folder.uri, TEST))
        return {**counts, **recall(work, searched_texts(work, vectors, TEST), lists, search)}

    run_stage("dense candidates", work.place.candidates(RETRIEVER), key, build, import_closure(ENTRY))


def by_fold(work: DenseWork, texts: DataFrame) -> DataFrame:
    """Rows with a fold and a text_id, a fold's texts in few partitions each, so that a worker opens few indexes."""
    slots = -(-work.partitions // len(work.prepared.folds))
    slot = F.pmod(F.xxhash64("text_id"), F.lit(slots))
    return texts.repartition(work.partitions, "fold", slot).sortWithinPartitions("fold", "text_id")


def _approximate(index: str) -> bool:
    """Whether any group of the index is searched by HNSW."""
    about = read_object(f"{index}/{STAGE_FILE}")
    return HNSW in about.get(SEARCH, {}).values()


def recall(work: DenseWork, texts: DataFrame, lists: DataFrame, search: Search) -> dict[str, float]:
    """The share of the exact lists that the approximate search has found, on a sample of each fold's texts."""
    order = F.row_number().over(Window.partitionBy("fold").orderBy(F.xxhash64("text_id"), "text_id"))
    sample = texts.withColumn("order", order).where(F.col("order") <= RECALL_TEXTS).drop("order")
    exact = sample.mapInArrow(search_labels(replace(search, exact=True)), LISTS_SCHEMA)
    keys = ["fold", "text_id", "label_group"]
    both = exact.select(*keys, F.col("label_ids").alias("wanted")).join(lists.select(*keys, "label_ids"), keys)
    hits = F.sum(F.size(F.array_intersect("wanted", "label_ids")))
    wanted = F.greatest(F.sum(F.size("wanted")), F.lit(1))
    rows = both.groupBy("label_group").agg((hits / wanted).alias("recall"), F.count("*").alias("texts")).collect()
    for group, share, count in sorted(rows):
        log(f"dense candidates: HNSW finds {share:.4f} of the exact top {search.top} ({group}, {count} texts)")
    return {f"{group}_recall": round(share, 4) for group, share, _ in sorted(rows)}
