"""Texts without labels, from JSON lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from fusion.errors import InputError
from udfs.json_records import json_kind, parse_json
from udfs.splits import Lines, check_utf8, lines_step
from udfs.steps import Step

TEXT, TEXT_ID = "text", "text_id"


def texts_schema(ids: pa.DataType) -> pa.Schema:
    return pa.schema([(TEXT_ID, ids), (TEXT, pa.string())])


def json_texts(ids: pa.DataType | None) -> Step:
    """Rows (text_id, text) of lines `{"text_id": ..., "text": "..."}`; with None, texts are numbered from 0 instead."""
    kind = pa.int64() if ids is None else ids

    def parse(lines: Lines) -> pa.RecordBatch:
        check_utf8(lines, lines.split.file)
        rows = list(_texts(lines, ids))
        columns = [pa.array([row[0] for row in rows], kind), pa.array([row[1] for row in rows], pa.string())]
        return pa.record_batch(columns, schema=texts_schema(kind))

    return lines_step(parse, texts_schema(kind), blank=False)


def _texts(lines: Lines, ids: pa.DataType | None) -> Iterator[tuple[Any, str]]:
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
        yield (row if ids is None else _id(record.get(TEXT_ID), ids, lines, place)), record[TEXT] or ""


def _id(value: Any, ids: pa.DataType, lines: Lines, place: int) -> Any:
    """An id as the first line has them: a whole number, or a string."""
    if pa.types.is_integer(ids):
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise InputError(f"{lines.place(place)}: text_id is {json_kind(value)}, and the first line has a whole number")
    if isinstance(value, str):
        return value
    raise InputError(f"{lines.place(place)}: text_id is {json_kind(value)}, and the first line has a string")
