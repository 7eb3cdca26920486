"""Runs as Arrow tables: from scores by text and label, and from JSON in the two forms that runs come in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from udfs.json_records import json_kind, parse_json
from udfs.splits import Lines, Split, check_utf8, read_lines, splits_of
from udfs.steps import Batches, Step
from udfs.text_files import encoding_error, other_encoding, read_text

LINES_AT_ONCE = 10_000
"""Lines that are Python objects at the same time."""
DIGITS = 40
"""Digits of a number that is too large that are shown."""
Place = Callable[[int], str]
"""From the number of a line among some to where it is, for messages."""
LISTS = ("label_ids", "scores")
IDS, NUMBERS, WHOLE, NAMES = "a string or a whole number", "a number", "a whole number", "a string"
KEYS = {
    "text_id": IDS,
    "label_ids": IDS,
    "scores": NUMBERS,
    "label_id": IDS,
    "score": NUMBERS,
    "retriever": NAMES,
    "label_group": NAMES,
    "role": NAMES,
    "fold": WHOLE,
}
"""What is read of a line of JSON, and what its values, or the elements of its lists, must be."""
TYPES = {IDS: (str, int), NUMBERS: (int, float), WHOLE: (int,), NAMES: (str,)}
RANX_SCHEMA = pa.schema(
    [("text_id", pa.string()), ("label_ids", pa.list_(pa.string())), ("scores", pa.list_(pa.float64()))]
)
KINDS_SCHEMA = pa.schema([("kinds", pa.binary())])


def run_table(run: Mapping[Any, Any], name: str) -> pa.Table:
    """The scores of labels by text, as one list per text."""
    for text, scores in run.items():
        if not isinstance(scores, Mapping):
            kind = type(scores).__name__
            raise InputError(f"{name}: expected scores by label for text {text!r}, as in {{'l1': 7.1}}; found a {kind}")
    labels = list_array((list(scores) for scores in run.values()), name)
    flat = [score for scores in run.values() for score in scores.values()]
    # To Python, true is the number 1.
    if {bool, np.bool_} & set(map(type, flat)):
        pairs = ((text, label) for text, scores in run.items() for label in scores)
        text, label = next(pair for pair, score in zip(pairs, flat, strict=True) if isinstance(score, bool | np.bool_))
        raise InputError(f"{name}: scores must be numbers; text {text!r}, label {label!r} has true or false")
    try:
        scores = pa.ListArray.from_arrays(labels.offsets, _doubles(flat))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name}: scores must be numbers: {error}") from None
    return pa.table({"text_id": id_array(run, f"{name}: text ids"), "label_ids": labels, "scores": scores})


def _doubles(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.float64())
    except pa.ArrowInvalid:
        # Whole numbers that a double holds only nearly are numbers as well.
        near = [float(value) if type(value) is int else value for value in values]
        return pa.array(near, pa.float64())


def list_array(lists: Iterable[list[Any]], name: str) -> pa.ListArray:
    """Lists of label ids."""
    lists = list(lists)
    offset = np.concatenate(([0], np.cumsum([len(labels) for labels in lists], dtype=np.int64)))
    flat = [label for labels in lists for label in labels]
    return pa.ListArray.from_arrays(pa.array(offset, pa.int32()), id_array(flat, f"{name}: label ids"))


def id_array(values: Iterable[Any], what: str) -> pa.Array:
    """Strings, or whole numbers."""
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    kinds = {type(value) for value in plain}
    try:
        if kinds <= {str}:
            return pa.array(plain, pa.string())
        if kinds == {int}:
            return pa.array(plain, pa.int64())
    except UnicodeEncodeError as error:
        raise InputError(f"{what}: {error.object!r} holds half of a character (a lone surrogate)") from None
    except (OverflowError, pa.ArrowException):
        large = next(value for value in plain if not -(2**63) <= value < 2**63)
        raise InputError(f"{what}: {large} has more than 64 bits; write such ids as strings") from None
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise InputError(f"{what} must be all strings or all whole numbers; found {names}")


def ranx_runs(source: str) -> Step:
    """From whole files such as {"t1": {"l1": 2.5, "l2": 1.0}}, which ranx saves as `.json`, to lists."""

    def run(splits: Batches) -> Batches:
        for split in splits_of(splits):
            yield from _ranx_table(read_text(split.file, source), source).to_batches(max_chunksize=LINES_AT_ONCE)

    return Step(run, RANX_SCHEMA, in_python=True)


def _ranx_table(text: str, source: str) -> pa.Table:
    try:
        run = parse_json(text)
    except ValueError as error:
        raise InputError(f"{source}: {error}") from None
    if not isinstance(run, dict) or not run:
        raise InputError(f"{source}: expected scores by label for each text, as in {{'t1': {{'l1': 7.1}}}}")
    return run_table(run, source)


def jsonl_kinds(source: str) -> Step:
    """From splits of files of lines such as {"text_id": "t1", "label_ids": ["l1", "l2"], "scores": [2.5, 1.0]} to the
    columns that they have, as a serialized schema."""

    def run(splits: Batches) -> Batches:
        for split in splits_of(splits):
            schemas = [table.schema for table in _jsonl_tables(split, source)]
            if not schemas:
                continue
            kinds = merged_kinds(schemas, source)
            yield pa.RecordBatch.from_pydict({"kinds": [kinds.serialize().to_pybytes()]}, KINDS_SCHEMA)

    return Step(run, KINDS_SCHEMA, in_python=True)


def jsonl_runs(source: str, kinds: pa.Schema) -> Step:
    """From splits of such files to their rows, with all columns that any line has."""

    def run(splits: Batches) -> Batches:
        for split in splits_of(splits):
            for table in _jsonl_tables(split, source):
                yield from _with_kinds(table, kinds).to_batches()

    return Step(run, kinds, in_python=True)


def _jsonl_tables(split: Split, source: str) -> Iterator[pa.Table]:
    """What a split holds, some lines at a time."""
    for block in read_lines(split):
        check_utf8(block, source)
        lines = [(place, line) for place, line in enumerate(block.values()) if line.strip()]
        for first in range(0, len(lines), LINES_AT_ONCE):
            yield _line_table(lines[first : first + LINES_AT_ONCE], block, source)


def merged_kinds(schemas: Iterable[pa.Schema], source: str) -> pa.Schema:
    """The columns of lines that are read some at a time."""
    kinds: dict[str, pa.DataType] = {}
    for field in (field for field in chain.from_iterable(schemas) if field.type != pa.null()):
        if kinds.setdefault(field.name, field.type) != field.type:
            raise InputError(f"{source}: {_two_ways(field.name)}")
    return pa.schema([(name, kinds[name]) for name in KEYS if name in kinds])


def _with_kinds(table: pa.Table, kinds: pa.Schema) -> pa.Table:
    """The same rows with all columns; those that none of these lines has are null."""
    given = {field.name for field in table.schema if field.type != pa.null()}
    columns = [table[field.name] if field.name in given else pa.nulls(len(table), field.type) for field in kinds]
    return pa.table(columns, schema=kinds)


def _line_table(lines: Sequence[tuple[int, bytes]], block: Lines, source: str) -> pa.Table:
    """What some lines hold; a key that none of them has is a column of nulls without a type."""

    def place(line: int) -> str:
        return f"{source} line {block.number(lines[line][0])}"

    rows = [_parsed(line, place, number) for number, (_, line) in enumerate(lines)]
    columns = {name: [row.get(name) for row in rows] for name in KEYS}
    return pa.table({name: _column(name, values, place) for name, values in columns.items()})


def _parsed(line: bytes, place: Place, number: int) -> dict[str, Any]:
    try:
        row = parse_json(line.decode())
    except ValueError as error:
        if isinstance(error, UnicodeDecodeError) or other_encoding(line) is not None:
            source, _, at = place(number).rpartition(" line ")
            raise encoding_error(source, int(at), line) from None
        raise InputError(f"{place(number)}: {error}") from None
    if not isinstance(row, dict):
        raise InputError(f"{place(number)}: {json_kind(row)}, expected an object with text_id, label_ids and scores")
    return row


def _column(name: str, values: list[Any], place: Place) -> pa.Array:
    if all(value is None for value in values):
        return pa.nulls(len(values))
    if name not in LISTS:
        return _array(name, values, place)
    _check_types(name, values, place, (list,), "a list")
    ends = np.cumsum([0 if value is None else len(value) for value in values])
    flat = list(chain.from_iterable(value or () for value in values))
    inside = _array(name, flat, lambda entry: place(int(np.searchsorted(ends, entry, side="right"))))
    # A null offset is a null list.
    absent = np.array([*(value is None for value in values), False])
    return pa.ListArray.from_arrays(pa.array(np.append(0, ends), pa.int32(), mask=absent), inside)


def _array(name: str, values: list[Any], place: Place) -> pa.Array:
    expected = KEYS[name]
    _check_types(name, values, place, TYPES[expected], expected)
    kinds = set(map(type, values)) - {type(None)}
    if expected == IDS and len(kinds) > 1:
        raise InputError(f"{place(next(n for n, value in enumerate(values) if type(value) is int))}: {_two_ways(name)}")
    try:
        if expected == NUMBERS:
            return _doubles(values)
        return pa.array(values, pa.string() if kinds <= {str} else pa.int64())
    except (OverflowError, pa.ArrowException):
        most = sys.float_info.max if expected == NUMBERS else 2**63 - 1
        first = next(n for n, value in enumerate(values) if value is not None and abs(value) > most)
        number = str(values[first])[:DIGITS]
        raise InputError(f"{place(first)}: the key {name!r} holds a number that is too large: {number}") from None


def _check_types(name: str, values: list[Any], place: Place, types: tuple[type, ...], expected: str) -> None:
    wrong = set(map(type, values)) - {*types, type(None)}
    if wrong:
        first = next(n for n, value in enumerate(values) if type(value) in wrong)
        raise InputError(f"{place(first)}: the key {name!r} holds {json_kind(values[first])}, expected {expected}")


def _two_ways(name: str) -> str:
    return f"the key {name!r} holds strings and numbers; write all ids in one way"
