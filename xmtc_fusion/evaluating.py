"""`evaluate`: which fusion of some runs is best, and what is known about that."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from jobs import evaluate as job
from jobs.config import Config, load_config, with_settings
from jobs.inputs.in_memory import folds_source, groups_source, judgements_source, runs_source
from jobs.inputs.sources import Sources
from xmtc_fusion.evaluation import Evaluation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Names = str | Iterable[str]


def evaluate(
    judgements: Any,
    runs: Any,
    *,
    metrics: Names | None = None,
    normalizations: Names | None = None,
    fusions: Names | None = None,
    cells: Iterable[str] | None = None,
    label_groups: Any = "auto",
    folds: Any = None,
    training: Any = None,
    scope: str | None = None,
    engine: str | None = None,
    per_query: bool | None = None,
    dataset: str | None = None,
    config: Config | str | None = None,
    settings: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Evaluation:
    """Evaluate every chosen cell, and every retriever alone.

    Args:
        judgements: the relevant labels of each text. `{"t1": ["l1", "l3"]}`, `{"t1": {"l1": 2}}` (grades; relevant from
            1 on), a pandas, polars or Arrow table (text_id with label_ids, or with label_id; optional: grades, or
            grade), a path (TREC qrels or Parquet), a catalog table's name, or a Spark DataFrame.
        runs: by retriever, the scores of labels: `{"bm25": {"t1": {"l1": 7.1}}, "dense": ...}`, or a table (text_id
            with label_ids and scores, or with label_id and score), a path or a DataFrame; or one table with a column
            `retriever`.
        metrics: such as `["ndcg@10", "map"]`; `xf.METRICS` has all of them.
        normalizations: names, `"all"` (the default: the paper's six) or `"everything"`. Parameters are part of a name.
        fusions: names, `"all"` (the default: the paper's ten) or `"everything"`. Parameters are part of a name:
            `"rrf(k=10)"`, or several values, `"rrf(k=[10,60])"`.
        cells: instead of all combinations, such as `["zmuv+combmnz", "rrf(k=10)", "bm25+dense: zmuv+wsum(bm25=0.3)"]`.
        label_groups: `{"l1": "head", ...}`, a table (label_id, label_group), `"pareto"`, `"none"` or `"auto"`.
        folds: `{"t1": 0, ...}`, or a table (text_id, fold). Without folds, all texts form one fold.
        training: the labels of the training texts, in the forms of the judgements, for psp and psndcg.
        scope: `"group"` fuses within each label group, `"joint"` all candidates together.
        engine: `"auto"`, `"local"`, `"arrays"` or `"windows"`.
        per_query: also keep every text's figures.
        dataset: what the report calls the dataset.
        config: a configuration, or the path of one.
        settings: dotted settings over it, such as `{"evaluate.seed": 1}`.
        spark: the session to use. Without one, small data needs none, and for large data one is made.
    """
    chosen = {
        "evaluate.metrics": listed(metrics),
        "grid.normalizations": listed(normalizations),
        "grid.fusions": listed(fusions),
        "grid.cells": None if cells is None else list(cells),
        "grid.scope": scope,
        "grid.engine": engine,
        "evaluate.per_query": per_query,
        "dataset": dataset,
    }
    resolved = configured(config, {**given(chosen), **(settings or {})})
    sources = sources_of(resolved, judgements, runs, label_groups, folds, training)
    return Evaluation(job.compute(spark, resolved, sources), resolved)


def sources_of(config: Config, judgements: Any, runs: Any, label_groups: Any, folds: Any, training: Any) -> Sources:
    """What users hold in memory, or name, as the sources of a job."""
    return Sources(
        runs_source(runs),
        judgements_source(judgements),
        groups_source(label_groups),
        folds_source(folds),
        config.inputs.head_share,
        None if training is None else judgements_source(training),
        config.inputs.distances,
    )


def given(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """What was chosen, without what was left open."""
    return {key: value for key, value in chosen.items() if value is not None}


def configured(config: Config | str | None, settings: Mapping[str, Any]) -> Config:
    """A configuration with settings laid over it."""
    if isinstance(config, Config):
        return with_settings(config, settings)
    return load_config(config, settings)


def listed(names: Names | None) -> str | list[str] | None:
    return names if names is None or isinstance(names, str) else list(names)
