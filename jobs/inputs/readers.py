"""Readers of runs and judgements in this process: TREC, JSON and Parquet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from fusion.errors import InputError
from jobs.inputs.files import first_bytes
from jobs.inputs.sources import NUMBER, bad_lines
from udfs.stores.addresses import locate
from udfs.stores.clients import file_system, retried
from udfs.stores.objects import files_below
from udfs.text_files import PARQUET, read_lines

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


def read_parquet_files(path: str, source: str) -> pa.Table:
    """A file, or all files of a folder, partition columns (`name=value` folders) included.

    Pages that carry a checksum are checked, and all files must have the same columns: casting one file to the types
    of another could change its numbers.
    """
    try:
        names = [listed.name for listed in files_below(path) if _is_data(listed.name)]
    except OSError as error:
        raise InputError(f"cannot read {source}: {error}") from None
    if not names:
        raise InputError(f"cannot read {source}: there is no Parquet file")
    if names == [""] and not (first_bytes(path) or PARQUET).startswith(PARQUET):
        raise InputError(
            f"cannot read {source}: it is not a Parquet file, and this input has to be a table. To convert a CSV file: "
            "pandas.read_csv('x.csv').to_parquet('x.parquet')"
        )
    tables = [_read(path, name, source) for name in names]
    for name, table in zip(names[1:], tables[1:], strict=True):
        if not table.schema.equals(tables[0].schema):
            raise InputError(f"cannot read {source}: {_difference(table.schema, tables[0].schema, name, names[0])}")
    return pa.concat_tables(tables)


def _is_data(name: str) -> bool:
    """Whether a file counts: names that begin with a dot or an underscore are Spark's own business."""
    steps = name.split("/")
    return not name or (name.endswith(".parquet") and not any(step.startswith((".", "_")) for step in steps))


def _read(path: str, name: str, source: str) -> pa.Table:
    place = locate(f"{path.rstrip('/')}/{name}" if name else path)

    def read() -> pa.Table:
        with file_system(place).open_input_file(place.path) as stream:
            return pq.ParquetFile(stream, page_checksum_verification=True).read().replace_schema_metadata()

    try:
        table = retried(place, "read", read)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {source}: {_file_name(place.path)}: {error}") from None
    for step in name.split("/")[:-1]:
        column, equals, value = step.partition("=")
        if equals:
            table = table.append_column(column, pa.array([unquote(value)] * len(table), pa.string()))
    return table


def _difference(schema: pa.Schema, other: pa.Schema, name: str, other_name: str) -> str:
    """The first column in which two files differ."""
    kinds: list[dict[str, Any]] = [{field.name: str(field.type) for field in fields} for fields in (schema, other)]
    file, other_file = _file_name(name), _file_name(other_name)
    for column in {**kinds[0], **kinds[1]}:
        kind, other_kind = (columns.get(column, "missing") for columns in kinds)
        if kind != other_kind:
            return f"column {column!r} is {kind} in {file} and {other_kind} in {other_file}"
    return f"{file} and {other_file} have their columns in another order"


def _file_name(path: str) -> str:
    return path.rpartition("/")[2]
