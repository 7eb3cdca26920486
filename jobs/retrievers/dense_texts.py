"""The stages of `dense-texts`: the vectors of each fold's training texts, and the labels of the nearest of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fusion.retrieval.contrastive import dense_package
from jobs.retrievers import vectors as train_dense
from jobs.retrievers.dense import FoldVectors, by_fold, fold_vectors, heads_folder, searched_texts, wanted_index
from jobs.retrievers.stages import run_folds, write_lists
from jobs.retrievers.vectors import DenseWork
from jobs.settings.config import Config
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import import_closure, input_fingerprint, run_stage, stage_folder
from udfs.lists import LISTS_SCHEMA
from udfs.retrieval.bm25 import Scoring
from udfs.retrieval.text_neighbours import RETRIEVER, index_texts, search_texts
from udfs.retrieval.vectors import Search
from udfs.stores.addresses import absolute

ENTRY = "jobs.retrievers.dense_texts"
"""This module and what it imports decide what the stages write."""


def run(spark: SparkSession, config: Config) -> str:
    """Retrieve, and return the folder of the candidates."""
    dense_package("faiss")
    work = train_dense.run(spark, config, RETRIEVER)
    vectors = fold_vectors(work, train_texts=True)
    index = work.place.retriever_stage(RETRIEVER, "index")
    _index_stage(work, vectors, index)
    return _lists_stage(work, vectors, index)


def _index_stage(work: DenseWork, vectors: FoldVectors, path: str) -> None:
    heads, index = heads_folder(work), wanted_index(work.settings)
    trained = input_fingerprint(work.place.dense_model) if heads else ""
    key = {
        "prepared": work.prepared.fingerprint,
        "vectors": {str(fold): texts.fingerprint for fold, (texts, _) in vectors.items()},
        "model": trained,
        "index": [index.hnsw_from, index.links, index.build],
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        sources = [
            replace(work.source(fold, *vectors[fold]), model=heads and f"{heads}/fold={fold}") for fold in vectors
        ]
        reports = run_folds(work.spark, sources, index_texts(folder.uri, work.prepared.groups, index, trained))
        return {"folds": len(reports), "texts": sum(reports.values())}

    run_stage(f"{RETRIEVER} index", path, key, build, import_closure(ENTRY))


def _lists_stage(work: DenseWork, vectors: FoldVectors, index: str) -> str:
    settings, candidates = work.settings, work.place.candidates(RETRIEVER)
    built, heads = input_fingerprint(index), heads_folder(work)
    search = Search(absolute(stage_folder(index)), built, work.prepared.groups, heads, settings.top)
    scoring = Scoring(settings.neighbours, settings.aggregation, settings.top)
    key = {
        "index": built,
        "scoring": [scoring.neighbours, scoring.aggregation, scoring.top, search.effort],
        "roles": work.prepared.listed_roles,
    }

    def build(folder: ResultFolder) -> Mapping[str, Any]:
        def ranked(role: str) -> DataFrame:
            texts = by_fold(work, searched_texts(work, vectors, role))
            return texts.mapInArrow(search_texts(search, scoring), LISTS_SCHEMA)

        return write_lists(work.prepared, folder, ranked)

    run_stage(f"{RETRIEVER} candidates", candidates, key, build, import_closure(ENTRY))
    return candidates
