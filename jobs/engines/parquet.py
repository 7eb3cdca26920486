"""Parquet files as this process reads them: of any store, with verified pages, and all with the same columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from fusion.errors import InputError
from jobs.storage.versions import resolve
from udfs.steps import Batches, plain_type, plain_types
from udfs.stores.addresses import locate
from udfs.stores.clients import file_system, retried
from udfs.stores.objects import files_below

MAGIC = b"PAR1"
_ESCAPED = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(1, 32)))
"""Characters that Spark escapes in the names of partition folders."""


def partition_folder(column: str, value: str) -> str:
    """The folder of the rows with a value in a column, as Spark names it."""
    return f"{column}={''.join(f'%{ord(sign):02X}' if sign in _ESCAPED else sign for sign in value)}"


class ParquetFiles(NamedTuple):
    """A file, or all files of a folder, partition columns (`name=value` folders) included."""

    source: str
    path: str
    names: tuple[str, ...]
    """Below the path, in their order; an empty name is the path itself."""
    schema: pa.Schema

    def batches(self, columns: Sequence[str]) -> Batches:
        """The rows of one file after another."""
        for name in self.names:
            steps = _partition_values(name)
            table = _open(self, name, [column for column in columns if column not in steps])
            for column, value in steps.items():
                table = table.append_column(column, pa.array([value] * len(table), pa.string()))
            yield from plain_types(table.select(columns)).to_batches()


def parquet_files(source: str) -> ParquetFiles:
    """The files of a source. All must have the same columns: casting one file to the types of another could change its
    numbers."""
    path = resolve(source)
    try:
        names = [listed.name for listed in files_below(path) if _is_data(listed.name)]
    except OSError as error:
        raise InputError(f"cannot read {source}: {error}") from None
    if not names:
        raise InputError(f"cannot read {source}: there is no Parquet file")
    files = ParquetFiles(source, path, tuple(names), pa.schema([]))
    schemas = [_open(files, name) for name in names]
    for name, schema in zip(names[1:], schemas[1:], strict=True):
        if not schema.equals(schemas[0]):
            raise InputError(f"cannot read {source}: {_difference(schema, schemas[0], name, names[0])}")
    twice = [name for name, number in Counter(schemas[0].names).items() if number > 1]
    if twice:
        raise InputError(f"cannot read {source}: the column {twice[0]!r} is there twice")
    partitions = [(column, pa.string()) for column in _partition_values(names[0])]
    plain = [(field.name, plain_type(field.type)) for field in schemas[0]]
    return files._replace(schema=pa.schema([*plain, *partitions]))


def _is_data(name: str) -> bool:
    """Whether a file counts: names that begin with a dot or an underscore are Spark's own business."""
    steps = name.split("/")
    return not name or (name.endswith(".parquet") and not any(step.startswith((".", "_")) for step in steps))


def _partition_values(name: str) -> dict[str, str]:
    """The columns that the folders of a file name."""
    steps = (step.partition("=") for step in name.split("/")[:-1])
    return {column: unquote(value) for column, equals, value in steps if equals}


def _open(files: ParquetFiles, name: str, columns: Sequence[str] | None = None) -> Any:
    """Some columns of a file; without `columns`, its schema."""
    place = locate(f"{files.path.rstrip('/')}/{name}" if name else files.path)

    def read() -> Any:
        with file_system(place).open_input_file(place.path) as stream:
            if name == "" and stream.size() and stream.read(len(MAGIC)) != MAGIC:
                raise InputError(
                    f"cannot read {files.source}: it is not a Parquet file, and this input has to be a table. To "
                    "convert a CSV file: pandas.read_csv('x.csv').to_parquet('x.parquet')"
                )
            stream.seek(0)
            file = pq.ParquetFile(stream, page_checksum_verification=True)
            if columns is None:
                return file.schema_arrow.remove_metadata()
            return file.read(list(columns)).replace_schema_metadata()

    try:
        return retried(place, "read", read)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {files.source}: {_file_name(place.path)}: {error}") from None


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
