"""Parquet files of this machine, read whole and trusted only as far as they can be checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from fusion.errors import InputError


def read_parquet_files(path: Path, source: str) -> pa.Table:
    """A file, or all files of a folder, partition columns (`name=value` folders) included.

    Pages that carry a checksum are checked, and all files must have the same columns: casting one file to the types
    of another could change its numbers.
    """
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*.parquet") if _is_data(file, path))
    if not files:
        raise InputError(f"cannot read {source}: there is no Parquet file")
    tables = [_read(file, path, source) for file in files]
    for file, table in zip(files[1:], tables[1:], strict=True):
        if not table.schema.equals(tables[0].schema):
            raise InputError(f"cannot read {source}: {_difference(table.schema, tables[0].schema, file, files[0])}")
    return pa.concat_tables(tables)


def _is_data(file: Path, folder: Path) -> bool:
    """Whether a file counts: names that begin with a dot or an underscore are Spark's own business."""
    return file.is_file() and not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _read(file: Path, folder: Path, source: str) -> pa.Table:
    try:
        table = pq.ParquetFile(file, page_checksum_verification=True).read().replace_schema_metadata()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {source}: {file.name}: {error}") from None
    for part in file.relative_to(folder).parts[:-1]:
        name, equals, value = part.partition("=")
        if equals:
            table = table.append_column(name, pa.array([unquote(value)] * len(table), pa.string()))
    return table


def _difference(schema: pa.Schema, other: pa.Schema, file: Path, other_file: Path) -> str:
    """The first column in which two files differ."""
    kinds: list[dict[str, Any]] = [{field.name: str(field.type) for field in fields} for fields in (schema, other)]
    for name in {**kinds[0], **kinds[1]}:
        found, wanted = (kind.get(name, "missing") for kind in kinds)
        if found != wanted:
            return f"column {name!r} is {found} in {file.name} and {wanted} in {other_file.name}"
    return f"{file.name} and {other_file.name} have their columns in another order"
