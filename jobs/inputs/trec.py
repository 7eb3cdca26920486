"""TREC run and qrels files, read in this process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

import pyarrow as pa

from fusion.errors import InputError
from jobs.inputs.sources import NUMBER, bad_lines
from udfs.text_files import read_lines

LINES_AT_ONCE = 200_000
"""Lines that are Python objects at the same time."""
PLAIN_NUMBER = frozenset(b"0123456789.+-eE")
_NUMBER = re.compile(NUMBER.encode())


def read_trec(path: str, source: str, fields: Sequence[str], number: str) -> pa.Table:
    """The columns of a TREC file as strings, `number` as a double, and `line`. A line that does not fit is an error."""
    lines = enumerate(read_lines(path, source), start=1)
    batches = []
    while block := list(islice(lines, LINES_AT_ONCE)):
        words = [(n, line, line.split()) for n, line in block]
        words = [row for row in words if row[2]]
        column = fields.index(number)
        bad = [(n, line) for n, line, values in words if len(values) != len(fields) or not _is_number(values[column])]
        if bad:
            raise bad_lines(source, fields, number, [(n, line.decode(errors="replace")) for n, line in bad])
        batches.append(_batch(words, fields, column))
    table = pa.Table.from_batches([batch for batch in batches if len(batch)]) if any(map(len, batches)) else None
    if table is None:
        raise InputError(f"{source} is empty")
    return table


def _batch(words: Sequence[tuple[int, bytes, list[bytes]]], fields: Sequence[str], column: int) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {}
    for i, name in enumerate(fields):
        values = [row[2][i] for row in words]
        if i == column:
            columns[name] = pa.array(map(float, values), pa.float64(), size=len(values))
        else:
            columns[name] = pa.array(values, pa.binary()).cast(pa.string())
    columns["line"] = pa.array([row[0] for row in words], pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def _is_number(word: bytes) -> bool:
    # Python takes more for a number than people do, 1_000 for instance; most words need no second look.
    if PLAIN_NUMBER.issuperset(word):
        try:
            float(word)
        except ValueError:
            return False
        return True
    return _NUMBER.match(word) is not None
