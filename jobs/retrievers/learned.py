"""The stages of a retriever that is a Python function: what it learned from each fold, and its candidates."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from fusion.digests import code_version, digest
from jobs.datasets.tables import DatasetTables, open_tables
from jobs.retrievers.own import source_of
from jobs.retrievers.stages import run_folds, write_lists
from jobs.settings.base import RetrieverSettings
from jobs.settings.config import Config
from jobs.settings.linear import LinearSettings
from jobs.settings.retrievers import OwnSettings
from jobs.storage.folders import ResultFolder
from jobs.storage.stages import import_closure, input_fingerprint, run_stage, stage_folder
from jobs.storage.workspace import Workspace
from udfs.lists import LISTS_SCHEMA
from udfs.retrieval.folds import FoldSource
from udfs.retrieval.own import Learn, learn_fold, learn_linear, score_lists
from udfs.stores.addresses import absolute

ENTRY = "jobs.retrievers.learned"
"""This module and what it imports decide what the stages write."""


def run(
    spark: SparkSession, config: Config, retriever: str, learn: Learn, code: str, settings: RetrieverSettings
) -> str:
    """Learn and retrieve, unless that was done before; the folder of the candidates.

    `code` stands for the function and everything that it calls: if it changes, the stages are built again.
    """
    place = Workspace.of(config)
    prepared = open_tables(spark, place.prepared, config.spark.partitions, config.validation_candidates)
    _carry_source(learn)
    model = place.retriever_stage(retriever, "model")
    values = settings.model_dump(mode="json")
    key: dict[str, Any] = {"prepared": prepared.fingerprint, "code": code, "settings": values}

    def build_model(folder: ResultFolder) -> Mapping[str, Any]:
        sources = [FoldSource(fold, absolute(stage_folder(place.prepared)), (), (), False) for fold in prepared.folds]
        reports = run_folds(spark, sources, learn_fold(folder.uri, retriever, learn, values))
        return {"folds": len(reports), "texts": sum(report["texts"] for report in reports.values())}

    run_stage(f"{retriever} model", model, key, build_model, import_closure(ENTRY))
    learned = input_fingerprint(model)
    candidates = place.candidates(retriever)

    def build_lists(folder: ResultFolder) -> Mapping[str, Any]:
        score = score_lists(absolute(stage_folder(model)), learned, retriever, prepared.groups, settings.top)
        return write_lists(prepared, folder, lambda role: listed_texts(prepared, role).mapInArrow(score, LISTS_SCHEMA))

    key = {"model": learned, "top": settings.top, "roles": prepared.listed_roles}
    run_stage(f"{retriever} candidates", candidates, key, build_lists, import_closure(ENTRY))
    return candidates


def run_own(spark: SparkSession, config: Config, retriever: str, learn: Learn) -> str:
    """A retriever of the user's own, with its settings."""
    settings = config.retrievers.settings(retriever, OwnSettings)
    return run(spark, config, retriever, learn, digest(source_of(learn)), settings)


def run_linear(spark: SparkSession, config: Config) -> str:
    """One-vs-rest support vector machines."""
    code = code_version(*import_closure("udfs.retrieval.own"))
    return run(spark, config, "linear", learn_linear, code, config.retrievers.settings("linear", LinearSettings))


def listed_texts(prepared: DatasetTables, role: str) -> DataFrame:
    """The texts with a role in all folds: fold, text_id, text; a fold's texts one after another in each partition."""
    texts = prepared.samples.select("text_id", "text").join(prepared.fold_texts(role), "text_id")
    rows = texts.select("fold", "text_id", "text")
    return prepared.repartitioned(rows).sortWithinPartitions("fold", "text_id")


def _carry_source(learn: Learn) -> None:
    """Workers have no such file: send the code of its module along with the function."""
    module = sys.modules.get(learn.__module__)
    if module is not None and not module.__name__.startswith(("__main__", "jobs.", "udfs.", "fusion.")):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
