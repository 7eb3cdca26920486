"""A step: what is done with a stream of Arrow batches, in this process or in Spark's Python workers.

A step knows nothing of the engine that runs it, nor of how many batches there are or where one ends.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.types import Array, Ints

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Step:
    """A function from batches to batches, and the schema of the batches that it gives.

    An engine may call it several times, each time with a part of the rows; after `Engine.group` no key is divided
    between two calls. What is expensive to set up belongs in a cache of the process, since Python workers stay alive.
    """

    run: Callable[[Batches], Batches]
    schema: pa.Schema
    in_python: bool = False
    """Whether it spends its time in Python code, as tokenizing and parsing do: threads would wait for each other."""
    heavy: bool = False
    """Whether a row takes longer than its bytes suggest. Spark, which divides rows by bytes, spreads them over all
    workers first."""
    adds_up: bool = False
    """Whether it gives few rows for many, such as counts: each worker then makes one call, with all that it can get."""

    def __call__(self, batches: Batches) -> Batches:
        return self.run(batches)


class AbandonedError(Exception):
    """Raised within a step whose rows nobody waits for any more."""


class _Here(threading.local):
    """What a thread knows of the step that it runs."""

    abandoned: threading.Event | None = None
    share = 0.0
    """How much of the current part is said to be done."""


_here = _Here()
_listeners: list[Callable[[float], object]] = []


@contextmanager
def while_wanted(abandoned: threading.Event | None) -> Iterator[None]:
    """Within the block, `advanced` ends the work of this thread as soon as the event, if there is one, is set."""
    before = _here.abandoned
    _here.abandoned = abandoned or before
    try:
        yield
    finally:
        _here.abandoned = before


@contextmanager
def listening(listener: Callable[[float], object]) -> Iterator[None]:
    """Within the block, a function hears what the threads of this process say by `advanced`."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextmanager
def one_part() -> Iterator[None]:
    """Within the block, `advanced` is about one part of the work. What it has left out is added at the end."""
    _here.share = 0.0
    yield
    advanced(1 - _here.share)


def advanced(share: float = 0.0) -> None:
    """Say that a further share of a part is done. Long work calls it now and then; if nobody waits for the rows any
    more, it ends there."""
    if _here.abandoned is not None and _here.abandoned.is_set():
        raise AbandonedError
    _here.share += share
    # Nobody listens on Spark, or in another process.
    for listener in _listeners[-1:]:
        listener(share)


_modules = 0
"""How many modules this process had loaded when they were last set aside."""


def set_modules_aside() -> None:
    """Leave modules out of garbage collection, of which Spark's workers do one after every task: with PyTorch loaded it
    takes longer than most tasks. To be called when a task begins, so that nothing else is set aside for good."""
    global _modules
    if len(sys.modules) > _modules:
        _modules = len(sys.modules)
        gc.freeze()


def whole_keys(batches: Batches, keys: Sequence[str]) -> Iterator[pa.Table]:
    """Rows sorted by some columns, cut so that no key straddles two tables."""
    rest: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if rest is not None:
            table = pa.concat_tables([rest, table]).combine_chunks()
        last = int(key_starts(table, keys)[-1]) if len(table) else 0
        rest = table.slice(last)
        if last:
            yield table.slice(0, last)
    if rest is not None and len(rest):
        yield rest


def key_starts(table: pa.Table, keys: Sequence[str]) -> Ints:
    """The rows at which another key begins. Two nulls are the same key."""
    if not len(table):
        return np.empty(0, np.int64)
    change: Array = np.zeros(len(table) - 1, np.bool_)
    for name in keys:
        column = table[name].combine_chunks()
        before, after = column.slice(0, len(column) - 1), column.slice(1)
        differ = pc.fill_null(pc.not_equal(after, before), pc.not_equal(after.is_null(), before.is_null()))
        change |= differ.to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.flatnonzero(change) + 1))


AS_SPARK_READS_UINT64 = pa.decimal128(20)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """One type for the many ways in which Arrow can hold strings, lists and whole numbers. Unsigned numbers of 64 bits,
    such as hashes that serve as ids, are strings: no whole number of Spark's holds them."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(plain_type(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_uint64(kind) or kind == AS_SPARK_READS_UINT64:
        return pa.string()
    if pa.types.is_integer(kind):
        return pa.int32() if kind.bit_width < 32 or kind == pa.int32() else pa.int64()
    return pa.float32() if pa.types.is_float16(kind) else kind


def plain_types(table: pa.Table) -> pa.Table:
    """The same rows in plain types."""
    for place, field in enumerate(table.schema):
        # Only where it must be: pyarrow cannot cast lists that hold nothing but nulls.
        # As text, since pyarrow takes lists for equal whose entries have other names or must not be null.
        if str(plain_type(field.type)) != str(field.type):
            table = table.set_column(place, field.name, table[place].cast(plain_type(field.type)))
    return table


SPARK_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
}


def spark_type(kind: pa.DataType) -> str:
    """An Arrow type as Spark writes it."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'`{field.name}`: {spark_type(field.type)}' for field in kind)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return SPARK_TYPES.get(kind, str(kind))


def spark_types(schema: pa.Schema) -> dict[str, str]:
    """The columns with their types as Spark writes them."""
    return {field.name: spark_type(field.type) for field in schema}


def spark_schema(schema: pa.Schema) -> str:
    """An Arrow schema as Spark writes it."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)
