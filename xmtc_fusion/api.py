"""Every job as a Python function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import Cell
from fusion.errors import ConfigError
from fusion.grid.grid import parse_cells
from fusion.labels import ALL
from fusion.models.strategies import DEPLOYED
from jobs.engines.choose import choose_engine
from jobs.evaluation import evaluate as evaluate_job
from jobs.inputs.sources import (
    Kind,
    Sources,
    fold_table,
    group_table,
    judgement_table,
    kind_of,
    runs_source,
    source_of,
)
from jobs.inputs.tables import InputTables
from jobs.settings.config import Config, checked_settings, load_config, with_settings
from xmtc_fusion.evaluation import Evaluation, Explanation, Tuned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jobs.nights.night import Night


Names = str | Iterable[str]
Place: TypeAlias = "str | PathLike[str]"


def evaluate(
    judgements: Any,
    runs: Any,
    *,
    metrics: Names | None = None,
    normalizations: Names | None = None,
    fusions: Names | None = None,
    cells: Names | None = None,
    label_groups: Any = "auto",
    folds: Any = None,
    training: Any = None,
    scope: str | None = None,
    engine: str | None = None,
    per_query: bool | None = None,
    dataset: str | None = None,
    config: Config | Place | None = None,
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
    arguments = {
        "evaluate.metrics": metrics,
        "grid.normalizations": normalizations,
        "grid.fusions": fusions,
        "grid.cells": _listed(cells),
        "grid.scope": scope,
        "grid.engine": engine,
        "evaluate.per_query": per_query,
        "dataset": dataset,
    }
    resolved = _configured(config, settings, arguments)
    sources = _sources_of(resolved, judgements, runs, label_groups, folds, training)
    return _evaluated(spark, resolved, sources)


def _evaluated(spark: SparkSession | None, config: Config, sources: Sources) -> Evaluation:
    tables = InputTables(choose_engine(config, sources.addresses(), spark), sources)
    detailed = partial(evaluate_job.evaluated, tables, config)
    if not (config.evaluate.details and sources.in_memory):
        return Evaluation(detailed(), config)
    # The figures alone take a fraction of the time; what the tables need is counted when somebody asks for them.
    figures = config.model_copy(update={"evaluate": config.evaluate.model_copy(update={"details": False})})
    return Evaluation(evaluate_job.counted(tables, figures), config, detailed)


def _listed(names: Any) -> Any:
    """Names in any order of theirs as a list; what is none is left as it is, to be refused with the other settings."""
    return list(names) if isinstance(names, Iterable) and not isinstance(names, str) else names


def _sources_of(config: Config, judgements: Any, runs: Any, label_groups: Any, folds: Any, training: Any) -> Sources:
    """What users hold in memory, or name, as the sources of a job."""
    return Sources(
        candidates=runs_source(runs),
        judgements=None if judgements is None else source_of(judgements, "judgements", judgement_table),
        label_groups=source_of(label_groups, "label groups", group_table),
        folds=None if folds is None else source_of(folds, "folds", fold_table),
        head_share=config.inputs.head_share,
        training=None if training is None else source_of(training, "training", judgement_table),
        distances=config.inputs.distances,
    )


def _configured(
    config: Config | Place | None, settings: Mapping[str, Any] | None, arguments: Mapping[str, Any] | None = None
) -> Config:
    """A configuration with the arguments that were given, and then settings, laid over it."""
    given = {name: value for name, value in (arguments or {}).items() if value is not None}
    over = given | checked_settings(settings)
    return with_settings(config, over) if isinstance(config, Config) else load_config(config, over)


def fuse(
    runs: Any,
    cells: str | Iterable[str] = "zmuv+combmnz",
    *,
    model: Place | None = None,
    training: Any = None,
    top: int = 64,
    engine: str | None = None,
    config: Config | Place | None = None,
    settings: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Any:
    """The fused ranking of every text: the best `top` labels with their scores, best first.

    Args:
        runs: as for `evaluate`. The result has the type of the first run: a dictionary, a pandas, polars or Arrow
            table (one row per list if that run had lists, one row per candidate if not), or a Spark DataFrame. For a
            path, an Arrow table.
        cells: `"zmuv+combmnz"`, `"rrf(k=10)"` or another cell; or several, then the result is a dictionary by cell.
        model: instead of cells, the path of a model file that `tune` made. If it counts the training texts of labels,
            `training` must have their labels, in the forms of the judgements of `evaluate`.
        top: how many labels of each text are kept.
        engine: `"auto"`, `"local"`, `"arrays"` or `"windows"`.
        config: a configuration, or the path of one.
        settings: dotted settings over it.
        spark: the session to use, if there is one.
    """
    from jobs.evaluation import fuse as job

    names = [cells] if isinstance(cells, str) else _listed(cells)
    if not names or not isinstance(names, list):
        raise ConfigError(f"cells: {cells!r} names no cell; give one or several, as in 'zmuv+combmnz'")
    arguments = {
        "grid.cells": names,
        "fuse.top": top,
        "fuse.label_groups": [ALL],
        "grid.engine": engine,
        "fuse.model": model,
    }
    resolved = _configured(config, settings, arguments)
    sources = _sources_of(resolved, None, runs, "auto", None, training)
    fused = job.fused_rows(spark, resolved, sources)
    first = next(iter(runs.values())) if isinstance(runs, Mapping) else runs
    kind, long = kind_of(first), _is_long(first)
    if model is not None:
        return _of_cell(fused, DEPLOYED, kind, long)
    rankings = {}
    for name in names:
        named = parse_cells(name)
        for cell in named:
            rankings[name if len(named) == 1 else str(cell)] = _of_cell(fused, cell, kind, long)
    return rankings[cells] if isinstance(cells, str) and cells in rankings else rankings


def _is_long(run: Any) -> bool:
    """Whether a run has one row per candidate."""
    names = getattr(run, "columns", None) if not isinstance(run, pa.Table) else run.column_names
    return names is not None and "label_id" in list(names)


def _of_cell(fused: Any, cell: Cell, kind: Kind, long: bool) -> Any:
    if not isinstance(fused, pa.Table):
        return _on_spark(fused, cell, long)
    inside = pc.and_(pc.equal(fused["normalization"], cell.normalization), pc.equal(fused["fusion"], cell.fusion))
    lists = fused.filter(inside).select(["text_id", "label_ids", "scores"])
    if kind == "dict":
        return {row["text_id"]: dict(zip(row["label_ids"], row["scores"], strict=True)) for row in lists.to_pylist()}
    table = _exploded(lists) if long else lists
    if kind == "pandas":
        return table.to_pandas()
    if kind == "polars":
        import polars

        return polars.from_arrow(table)
    return table


def _exploded(lists: pa.Table) -> pa.Table:
    lists = lists.combine_chunks()
    owner = np.repeat(np.arange(len(lists)), pc.list_value_length(lists["label_ids"]).to_numpy())
    columns = {
        "text_id": lists["text_id"].take(pa.array(owner)),
        "label_id": pc.list_flatten(lists["label_ids"]),
        "score": pc.list_flatten(lists["scores"]),
    }
    return pa.table(columns)


def _on_spark(fused: DataFrame, cell: Cell, long: bool) -> DataFrame:
    from pyspark.sql import functions as F

    # A row that cannot be used must stop whoever reads the result, whenever that is.
    checked = F.when(F.col("problems").isNull(), F.col("text_id")).otherwise(F.raise_error(F.col("problems")))
    here = (F.col("normalization") == cell.normalization) & (F.col("fusion") == cell.fusion)
    lists = fused.where(here | F.col("problems").isNotNull()).select(checked.alias("text_id"), "label_ids", "scores")
    if not long:
        return lists
    pair = F.explode(F.arrays_zip("label_ids", "scores")).alias("pair")
    return lists.select("text_id", pair).select(
        "text_id", F.col("pair.label_ids").alias("label_id"), F.col("pair.scores").alias("score")
    )


def explain(
    runs: Any,
    text: Any,
    cell: str = "zmuv+combmnz",
    judgements: Any = None,
    *,
    model: Place | None = None,
    training: Any = None,
    label_group: str = ALL,
    label_groups: Any = "auto",
    folds: Any = None,
    scope: str | None = None,
    rows: int = 20,
    engine: str | None = None,
    config: Config | Place | None = None,
    settings: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Explanation:
    """How the fused scores of one text came about: raw, normalised, fused, and the ranks, per retriever.

    Args:
        runs: as for `evaluate`.
        text: the id of the text.
        cell: such as `"zmuv+combmnz"`.
        judgements: as for `evaluate`; without them nothing is marked as relevant.
        model: the path of a model file that `tune` saved, which is explained instead of a cell.
        training: as for `fuse`, for a model that reads how many training texts carry a label.
        label_group: `"tail"`, `"head"` or another group, or `"all"` labels together.
        label_groups: as for `evaluate`.
        folds: as for `evaluate`.
        scope: as for `evaluate`.
        rows: candidates that `text` and a notebook show; `table` has them all.
        engine: `"auto"`, `"local"`, `"arrays"` or `"windows"`.
        config: a configuration, or the path of one.
        settings: dotted settings over it.
        spark: the session to use, if there is one.
    """
    from jobs.evaluation import explain as job

    arguments = {
        "explain.text": str(text),
        "explain.cell": cell,
        "explain.model": model,
        "explain.label_group": label_group,
        "explain.rows": rows,
        "grid.scope": scope,
        "grid.engine": engine,
    }
    resolved = _configured(config, settings, arguments)
    sources = _sources_of(resolved, judgements, runs, label_groups, folds, training)
    return Explanation(job.run(spark, resolved, sources), resolved.explain.rows)


def tune(
    judgements: Any,
    runs: Any,
    *,
    strategies: Names | None = None,
    objective: str | None = None,
    metrics: Names | None = None,
    label_groups: Any = "auto",
    folds: Any = None,
    training: Any = None,
    engine: str | None = None,
    dataset: str | None = None,
    config: Config | Place | None = None,
    settings: Mapping[str, Any] | None = None,
    spark: SparkSession | None = None,
) -> Tuned:
    """Choose and learn fusions on validation texts, and evaluate them on test texts next to all fixed cells.

    Args:
        judgements: as for `evaluate`.
        runs: as for `evaluate`. A column `role` may mark validation texts and test texts.
        strategies: such as `["tuned+cell", "learned+logistic"]`; by default all that are installed.
        objective: what choices maximise, such as `"ndcg@10"` or `"0.5*ndcg@10+0.5*precision@1"`.
        metrics: as for `evaluate`.
        label_groups: as for `evaluate`.
        folds: a table (text_id, fold, role), or `{"t1": 0, ...}`. Without texts of the role validation, the choice for
            each fold, or for each part of the texts, is made on the others.
        training: as for `evaluate`; learned fusions read how frequent a label is there.
        engine: as for `evaluate`.
        dataset: what the report calls the dataset.
        config: a configuration, or the path of one.
        settings: dotted settings over it.
        spark: the session to use, if there is one.
    """
    from jobs.tuning import tune as job

    arguments = {
        "tune.strategies": strategies,
        "tune.objective": objective,
        "evaluate.metrics": metrics,
        "grid.engine": engine,
        "dataset": dataset,
    }
    resolved = _configured(config, settings, arguments)
    sources = _sources_of(resolved, judgements, runs, label_groups, folds, training)
    return Tuned(job.compute(spark, resolved, sources), resolved)


Settings = Mapping[str, Any]


def prepare(
    config: Config | Place, settings: Settings | None = None, spark: SparkSession | None = None
) -> dict[str, Any]:
    """Write a published dataset as the tables samples, labels and folds. Returns its statistics."""
    from jobs.datasets import prepare as job
    from jobs.datasets.prepared import dataset_engine

    resolved = _configured(config, settings)
    return job.run(dataset_engine(resolved, spark), resolved)


def retrieve(
    config: Config | Place, settings: Settings | None = None, spark: SparkSession | None = None
) -> dict[str, str]:
    """Candidates of every fold's test and validation texts by all configured retrievers. Returns the table of each."""
    from jobs.datasets.prepared import prepared_engine
    from jobs.retrievers import driver as job

    resolved = _configured(config, settings)
    return job.run(prepared_engine(resolved, spark), resolved)


def run(config: Config | Place, settings: Settings | None = None, spark: SparkSession | None = None) -> Evaluation:
    """From a dataset's files to the figures of the whole grid and their report."""
    from jobs.evaluation import pipeline as job
    from jobs.reporting import report as report_job

    resolved = _configured(config, settings)
    result = job.run(spark, resolved)
    report_job.run(job.reported(resolved))
    return Evaluation(result, job.with_results(resolved))


def report(
    results: Place | list[Place],
    output: Place | None,
    settings: Settings | None = None,
    *,
    compare: Place | None = None,
) -> str:
    """Write the report of one or several folders of results. Returns the path of its page.

    `compare`: a folder of earlier results, or of another configuration. The page then shows both side by side, the
    differences tested over the texts that both have.
    """
    from jobs.reporting import report as job

    listed = results if isinstance(results, list) else [results]
    if not listed or not all(isinstance(one, str | PathLike) for one in listed):
        raise ConfigError(f"results: expected the folder of an evaluation, or a list of several; found {results!r}")
    folders = [str(one) for one in listed]
    arguments: Settings = {"report.results": folders}
    if compare is not None:
        if len(folders) != 1:
            raise ConfigError(f"only one folder of results can be compared with another, not {len(folders)}")
        arguments = {"report.compare": [str(compare), *folders]}
    return job.run(_configured(None, settings, {**arguments, "output.path": output}))


def nightly(config: Config | Place, settings: Settings | None = None, spark: SparkSession | None = None) -> Night:
    """Evaluate datasets again and compare them with the baseline. Returns how the night went."""
    from jobs.nights import nightly as job

    return job.run(spark, _configured(config, settings))


def doctor(config: Config | Place | None = None, settings: Settings | None = None) -> int:
    """Print what is wrong with an installation. Returns the number of problems."""
    from jobs.engines import doctor as job

    return job.run(_configured(config, settings))
