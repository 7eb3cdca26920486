"""A dataset of a nightly run: everything up to its figures, as far as something changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fusion.errors import ConfigError
from fusion.kernel.compiled import code_version
from fusion.label_groups import ALL
from jobs import evaluate
from jobs import run as pipeline
from jobs.config import Config
from jobs.datasets.input_files import input_fingerprints
from jobs.inputs.sources import source_format
from jobs.inputs.spark_tables import SparkTables, read_table
from jobs.runtime.code import PACKAGES
from jobs.runtime.folders import CONFIG_FILE, ResultFolder
from jobs.runtime.stages import fingerprint, input_fingerprint, run_stage, stage_fingerprint
from jobs.runtime.workspace import Workspace
from udfs.input_counts import JUDGED
from udfs.storage import local_folder

LABEL_COUNTS, QUERIES = "label_counts", "query_metrics.parquet"


@dataclass(frozen=True)
class Evaluated:
    """The figures of a dataset, in a folder that `report` reads, and what they follow from."""

    dataset: str
    config: Config
    path: str
    built: bool
    """False if nothing had changed."""
    fingerprints: dict[str, str]
    """Of the data (each input, as JSON), the configuration and the code."""


def reevaluate(spark: SparkSession, config: Config) -> Evaluated:
    """Bring the figures of a dataset up to date."""
    path = Workspace.of(config).nightly_results
    if config.prepare.format is not None:
        brought = config.inputs.candidates if isinstance(config.inputs.candidates, dict) else {}
        own_runs = {name: _source_fingerprint(spark, source) for name, source in brought.items()}
        inputs = {**input_fingerprints(spark, config.prepare), **own_runs}
        config = pipeline.with_candidates(spark, config)
    elif config.inputs.candidates is None or config.inputs.judgements is None:
        raise ConfigError(
            f"dataset {config.dataset}: neither prepare.format nor inputs.candidates and judgements are set"
        )
    else:
        inputs = _inputs(spark, config)
    watch = config.nightly.watch
    data = json.dumps({name: fingerprint(content) for name, content in inputs.items()}, sort_keys=True)
    fingerprints = {"data": data, "configuration": _configuration(config), "code": code_version(*PACKAGES)}
    key = {"inputs": _inputs(spark, config), "settings": fingerprints["configuration"]}

    def build(folder: ResultFolder) -> dict[str, Any]:
        result = evaluate.compute(spark, config)
        evaluate.write(result, folder)
        groups = set(result.metrics["label_group"].to_pylist()) & set(watch.label_groups)
        figures = {"metrics": [str(measure) for measure in watch.measures], "label_groups": sorted(groups) or [ALL]}
        watched = config.model_copy(
            update={
                "grid": config.grid.model_copy(update={"cells": list(watch.cells)}),
                "evaluate": config.evaluate.model_copy(update={**figures, "per_query": True, "details": False}),
            }
        )
        queries = evaluate.compute(spark, watched).queries
        assert queries is not None
        assert config.inputs.judgements is not None
        tables = SparkTables(spark)
        judgements = tables.read_judgements(config.inputs.judgements, config.inputs.judgements)
        labels = F.array_sort(F.col("label_ids").cast("array<string>"))
        text_id = F.col("text_id").cast(queries.schema["text_id"].dataType)
        judged = judgements.select(text_id, F.xxhash64(labels).alias("judgement"))
        queries.join(judged, "text_id").write.parquet(f"{folder.uri}/{QUERIES}")
        ids, counts = tables.frequencies(judgements)
        folder.write_table(LABEL_COUNTS, pa.table({"label": ids.cast(pa.string()), "texts": counts}))
        folder.write_text(CONFIG_FILE, config.to_yaml())
        return {"texts": result.input_counts[JUDGED], "figures": len(result.metrics)}

    built = run_stage("evaluate", path, key, build)
    return Evaluated(config.dataset, config, path, built, fingerprints)


def _inputs(spark: SparkSession, config: Config) -> dict[str, Any]:
    """A fingerprint of each input."""
    inputs = config.inputs.model_dump(mode="json")
    candidates = inputs.pop("candidates")
    named = {**inputs, **(candidates if isinstance(candidates, dict) else {"candidates": candidates})}
    return {name: _source_fingerprint(spark, source) for name, source in named.items()}


def _source_fingerprint(spark: SparkSession, source: Any) -> Any:
    """The fingerprint of the stage that wrote it, of its bytes, or of its rows where only Spark can read it."""
    if not isinstance(source, str) or source in ("auto", "pareto", "none"):
        return source
    kind, path = source_format(source)
    if kind != "table" and local_folder(path) is not None:
        return stage_fingerprint(path.rpartition("/")[0]) or input_fingerprint(path)
    rows = spark.read.text(path) if kind == "trec" else read_table(spark, source)
    digest = rows.agg(F.count("*"), F.bit_xor(F.xxhash64(*rows.columns))).first()
    return None if digest is None else list(digest)


def _configuration(config: Config) -> str:
    """What was asked for, without the places where things lie."""
    chosen = config.model_dump(mode="json")
    chosen["prepare"].pop("folder")
    watch = chosen["nightly"]["watch"]
    retrieval = ("retrievers", "retriever_settings", "sparse", "dense", "static", "linear")
    sections = {name: chosen[name] for name in ("dataset", "prepare", *retrieval, "grid", "evaluate")}
    return fingerprint(json.loads(json.dumps({**sections, "watch": watch})))
