"""Texts without labels: from JSON lines or separated values, and whether their ids are good."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from udfs.datasets.separated import ROWS, Record, decoded_lines, records
from udfs.json_records import json_kind, parse_json
from udfs.splits import Lines, check_utf8, lines_step, splits_of
from udfs.steps import Batches, Step, key_starts, whole_keys

TEXT, TEXT_ID, PLACE = "text", "text_id", "place"
LARGEST = 2**63
SHOWN = 5


def texts_schema(ids: pa.DataType) -> pa.Schema:
    """`place` is that of the text among all texts, from 0; null where they have no order."""
    return pa.schema([(TEXT_ID, ids), (TEXT, pa.string()), (PLACE, pa.int64())])


def json_texts(ids: pa.DataType | None) -> Step:
    """Rows of lines `{"text_id": ..., "text": "..."}`; with None, texts are numbered from 0 instead."""
    kind = pa.int64() if ids is None else ids

    def parse(lines: Lines) -> pa.RecordBatch:
        check_utf8(lines, lines.split.file)
        rows = list(_texts(lines, ids))
        schema = texts_schema(kind)
        columns = [pa.array([row[n] for row in rows], field.type) for n, field in enumerate(schema)]
        return pa.record_batch(columns, schema=schema)

    return lines_step(parse, texts_schema(kind), blank=False)


def _texts(lines: Lines, ids: pa.DataType | None) -> Iterator[tuple[Any, str, int]]:
    for row, place, line in lines.rows():
        try:
            record = parse_json(line.decode())
        except ValueError as error:
            raise InputError(f"{lines.place(place)}: not JSON: {error}") from None
        if not isinstance(record, dict) or not isinstance(record.get(TEXT), str | None):
            raise InputError(f'{lines.place(place)}: expected {{"text_id": ..., "text": "..."}}, found {line[:80]!r}')
        if TEXT not in record:
            fields = ", ".join(map(repr, record)) or "none"
            raise InputError(f"{lines.place(place)}: no field {TEXT!r}; there are {fields}")
        given = record.get(TEXT_ID)
        if ids is None and given is not None:
            raise InputError(f"{lines.place(place)}: there is a {TEXT_ID}, and the first line has none")
        yield (row if ids is None else _id(given, ids, lines.place(place))), record[TEXT] or "", row


def separated_texts(ids: pa.DataType | None, delimiter: str) -> Step:
    """The same of files of separated values, whose first line names the columns."""
    schema = texts_schema(pa.int64() if ids is None else ids)

    def run(batches: Batches) -> Batches:
        for split in splits_of(batches):
            rows = _separated(split.file, ids, delimiter)
            while some := list(islice(rows, ROWS)):
                columns = [pa.array([row[n] for row in some], field.type) for n, field in enumerate(schema)]
                yield pa.record_batch(columns, schema=schema)

    return Step(run, schema, in_python=True)


def text_records(file: str, delimiter: str) -> Iterator[Record]:
    """The lines of column names and of texts; a ValueError says which line is broken."""
    return records(decoded_lines(file, "utf-8", "not UTF-8; convert it"), delimiter)


def _separated(file: str, ids: pa.DataType | None, delimiter: str) -> Iterator[tuple[Any, str, int]]:
    try:
        found = text_records(file, delimiter)
        _, names = next(found)
        for row, (line, values) in enumerate(found):
            place = f"{file} line {line}"
            if len(values) != len(names):
                raise InputError(f"{place}: {len(values)} fields, and the first line names {len(names)} columns")
            record = dict(zip(names, values, strict=True))
            if ids is None:
                text_id: Any = row
            else:
                text_id = _id(typed_id(record[TEXT_ID]), ids, place) if ids == pa.int64() else record[TEXT_ID] or None
            yield text_id, record[TEXT], row
    except ValueError as error:
        raise InputError(f"{file} {error}") from None


def typed_id(value: str) -> int | str:
    """An id that is written without quotes: a whole number, if it is written as one is."""
    return int(value) if re.fullmatch(r"0|-?[1-9]\d*", value, re.ASCII) else value


def _id(value: Any, ids: pa.DataType, place: str) -> Any:
    """An id as the first line has them: a whole number, or a string."""
    if pa.types.is_integer(ids):
        if isinstance(value, int) and not isinstance(value, bool):
            if -LARGEST <= value < LARGEST:
                return value
            raise InputError(f"{place}: text_id is {value}, which has more than 64 bits; write it as text")
        raise InputError(f"{place}: text_id is {json_kind(value)}, and the first line has a whole number")
    if isinstance(value, str):
        return value
    raise InputError(f"{place}: text_id is {json_kind(value)}, and the first line has a string")


def counted_ids(kind: pa.DataType) -> Step:
    """Of ids that are grouped: how many texts there are, how many have none, how many ids occur more than once,
    and the first of these."""
    counts = [(name, pa.int64()) for name in ("texts", "missing", "repeated")]
    schema = pa.schema([*counts, ("first", pa.list_(kind))])

    def run(batches: Batches) -> Batches:
        for table in whole_keys(batches, [TEXT_ID]):
            missing = table[TEXT_ID].null_count
            ids = table.filter(table[TEXT_ID].is_valid())
            starts = key_starts(ids, [TEXT_ID])
            repeated = starts[np.diff(np.append(starts, len(ids))) > 1]
            first = ids[TEXT_ID].take(pa.array(repeated[:SHOWN])).to_pylist()
            row = {"texts": len(table), "missing": missing, "repeated": len(repeated), "first": first}
            yield pa.RecordBatch.from_pylist([row], schema)

    return Step(run, schema)
