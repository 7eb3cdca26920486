"""What a table is reduced to before its rows go anywhere: some columns, renamed, coded and cast, of some rows.

Each engine does this in its own way, without a step in Python: Arrow's functions in this process, SQL on Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Taken:
    """A column as it is."""

    column: str


@dataclass(frozen=True)
class Constant:
    """The same value in every row; None for nulls."""

    value: Any


@dataclass(frozen=True)
class Single:
    """A list that holds nothing but the value of a column."""

    column: str


@dataclass(frozen=True)
class Place:
    """The place of a column's value among some values, counted from `first`."""

    column: str
    values: tuple[str, ...]
    first: int


@dataclass(frozen=True)
class Band:
    """`first`, less one for every edge that a column's value reaches; `first` where it is null."""

    column: str
    edges: tuple[int, ...]
    first: int


Value: TypeAlias = Taken | Constant | Single | Place | Band


class Column(NamedTuple):
    """What a column holds, and its type."""

    value: Value
    type: pa.DataType


class Among(NamedTuple):
    """Rows whose value in a column is one of some; with `nulls`, also those without a value."""

    column: str
    values: Sequence[Any]
    nulls: bool = False


Columns = Mapping[str, Column]


def columns_schema(columns: Columns) -> pa.Schema:
    return pa.schema([(name, column.type) for name, column in columns.items()])


def selected(batch: pa.RecordBatch, columns: Columns, where: Sequence[Among]) -> pa.RecordBatch:
    """The columns of the rows that meet all conditions."""
    for among in where:
        held = batch[among.column]
        inside = pc.is_in(held, value_set=pa.array(list(among.values), held.type))
        batch = batch.filter(pc.or_(inside, held.is_null()) if among.nulls else pc.and_(inside, held.is_valid()))
    arrays = [_values(batch, column) for column in columns.values()]
    return pa.RecordBatch.from_arrays(arrays, schema=columns_schema(columns))


def _values(batch: pa.RecordBatch, column: Column) -> pa.Array:
    value, kind = column
    if isinstance(value, Constant):
        return pa.repeat(pa.scalar(value.value, kind), batch.num_rows)
    held = batch[value.column]
    if isinstance(value, Place):
        return pc.add(pc.index_in(held, value_set=pa.array(value.values, held.type)), value.first).cast(kind)
    if isinstance(value, Band):
        reached = np.searchsorted(value.edges, pc.fill_null(held, value.edges[0] - 1).to_numpy(), side="right")
        return pa.array(value.first - reached).cast(kind)
    if isinstance(value, Single):
        ends = pa.array(np.arange(batch.num_rows + 1), pa.int32())
        return pa.ListArray.from_arrays(ends, held.cast(kind.value_type))
    return held if held.type == kind else held.cast(kind)
