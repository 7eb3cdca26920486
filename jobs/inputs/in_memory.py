"""What users hold in memory, as Arrow tables: dictionaries, pandas, polars and Arrow tables. Spark's stay Spark's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any, Literal

import pyarrow as pa

from fusion.errors import InputError
from jobs.inputs.sources import Source
from udfs.run_tables import id_array, list_array, run_table

Kind = Literal["dict", "pandas", "polars", "arrow", "spark", "path"]


def kind_of(value: Any) -> Kind:
    """What a run, or a table of judgements, comes as."""
    if isinstance(value, str | PurePath):
        return "path"
    if isinstance(value, Mapping):
        return "dict"
    package = type(value).__module__.partition(".")[0]
    if package in ("pandas", "polars"):
        return "pandas" if package == "pandas" else "polars"
    return "spark" if package == "pyspark" else "arrow"


def runs_source(runs: Any) -> Source | dict[str, Source]:
    """All runs: one source per retriever, or one table with a column `retriever`."""
    if kind_of(runs) != "dict":
        return table_source(runs, "runs")
    return {str(name): _source(run, f"run {name!r}", run_table) for name, run in runs.items()}


def judgements_source(judgements: Any) -> Source:
    """Judged labels by text: a list of relevant labels, or labels with grades."""
    return _source(judgements, "judgements", _judgement_table)


def folds_source(folds: Any) -> Source | None:
    """The fold of each text."""
    return (
        None if folds is None else _source(folds, "folds", lambda folds, name: _pairs(folds, name, "text_id", "fold"))
    )


def groups_source(groups: Any) -> Source:
    """The group of each label, or one of the words auto, pareto and none."""
    return _source(groups, "label groups", lambda groups, name: _pairs(groups, name, "label_id", "label_group"))


def table_source(value: Any, name: str) -> Source:
    """A path, a table as Arrow holds it, or a Spark DataFrame."""
    kind = kind_of(value)
    if kind == "path":
        return str(value)
    if kind == "spark" or isinstance(value, pa.Table):
        return value
    if isinstance(value, (list, tuple, set)):
        raise InputError(
            f"{name}: expected a dictionary, a table (pandas, polars, Arrow or Spark) or a path; found a "
            f"{type(value).__name__}. Judgements come first, then runs by name: {{'bm25': ..., 'dense': ...}}"
        )
    try:
        if kind == "pandas":
            return pa.Table.from_pandas(value, preserve_index=False)
        if kind == "polars":
            return (value.collect() if hasattr(value, "collect") else value).to_arrow()
        return pa.table(value)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InputError(f"{name}: a {type(value).__name__} is not a table that Arrow can read: {error}") from None


def _source(value: Any, name: str, of_mapping: Callable[[Mapping[Any, Any], str], pa.Table]) -> Source:
    return of_mapping(value, name) if kind_of(value) == "dict" else table_source(value, name)


def _judgement_table(judgements: Mapping[Any, Any], name: str) -> pa.Table:
    for text, labels in judgements.items():
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise InputError(f"{name}: expected a list of labels for text {text!r}; found {labels!r}")
    lists = list_array((list(labels) for labels in judgements.values()), name)
    table = pa.table({"text_id": id_array(judgements, f"{name}: text ids"), "label_ids": lists})
    if not any(isinstance(labels, Mapping) for labels in judgements.values()):
        return table
    flat = [
        grade
        for labels in judgements.values()
        for grade in (labels.values() if isinstance(labels, Mapping) else [1] * len(list(labels)))
    ]
    try:
        grades = pa.array(map(float, flat), pa.float64(), size=len(flat))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}: grades must be numbers: {error}") from None
    return table.append_column("grades", pa.ListArray.from_arrays(lists.offsets, grades))


def _pairs(values: Mapping[Any, Any], name: str, key: str, value: str) -> pa.Table:
    column = pa.array(list(values.values()), pa.int32() if value == "fold" else pa.string())
    return pa.table({key: id_array(values, f"{name}: {key.replace('_', ' ')}s"), value: column})
