"""`fuse`: one ranking out of several, in the kind of table that came in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.grid import Cell, parse_cells
from fusion.label_groups import ALL
from fusion.tuning.strategies import DEPLOYED
from jobs import fuse as job
from jobs.config import Config
from jobs.inputs.in_memory import Kind, judgements_source, kind_of, runs_source
from jobs.inputs.sources import Sources
from xmtc_fusion.evaluating import configured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def fuse(
    runs: Any,
    cells: str | Iterable[str] = "zmuv+combmnz",
    *,
    model: str | None = None,
    training: Any = None,
    top: int = 64,
    engine: str | None = None,
    config: Config | str | None = None,
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
            `training` must bring their labels, in the forms of the judgements of `evaluate`.
        top: how many labels of each text are kept.
        engine: `"auto"`, `"local"`, `"arrays"` or `"windows"`.
        config: a configuration, or the path of one.
        settings: dotted settings over it.
        spark: the session to use, if there is one.
    """
    names = [cells] if isinstance(cells, str) else list(cells)
    chosen = {"grid.cells": names, "fuse.top": top, "fuse.label_groups": [ALL], **(settings or {})}
    if engine is not None:
        chosen["grid.engine"] = engine
    if model is not None:
        chosen["fuse.model"] = model
    resolved = configured(config, chosen)
    sources = Sources(
        runs_source(runs),
        label_groups="auto",
        training=None if training is None else judgements_source(training),
        distances=resolved.inputs.distances,
    )
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
