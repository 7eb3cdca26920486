"""Records with named fields as rows of an engine: JSON lines, CSV, Parquet files, or a catalog table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from fusion.errors import ConfigError, InputError
from jobs.datasets.readers import REMEDY, TEXT_KEY, LineFiles, all_parts
from jobs.engines.engine import Engine
from jobs.settings.prepare import Columns, Encoding, Part, PrepareSettings, paths_of
from udfs.datasets.records import SEPARATORS, Fields, TextColumns, parquet_step, partition_values, table_step
from udfs.datasets.separated import DELIMITERS, count_separated_step, header_of, separated_step
from udfs.datasets.texts import AS_TEXTS, Form, line_step
from udfs.splits import Split, files_of, numbered, parquet_splits, splits_of, table_of
from udfs.steps import spark_type

TABLE = "table:"


@dataclass(frozen=True)
class Records:
    """What was made of the records, in the order of the files' names.

    The rows of a catalog table have no order: their positions are null, and the count is 0.
    """

    rows: Any
    count: int
    source: str


class RecordColumns(Protocol):
    """Which fields of a record are read, and what is made of them."""

    @property
    def fields(self) -> Fields: ...
    def of_line(self, line: str) -> Any: ...
    def __call__(self, record: Any) -> Any: ...


@dataclass(frozen=True)
class Asked:
    """Which files, and what is to be made of their records."""

    paths: list[str]
    encoding: Encoding
    columns: RecordColumns
    form: Form
    offset: int = 0
    """The position of the first record."""
    delimiter: str = ","
    """What is between the columns of CSV files."""


ReadRecords = Callable[[Engine[Any], Asked], Records]


def json_records(engine: Engine[Any], asked: Asked) -> Records:
    """JSON lines, blank ones skipped. Numbers become strings."""
    lines = LineFiles.of(engine, asked.paths, blank=False)
    step = line_step(asked.columns.of_line, asked.form, asked.encoding, asked.offset, blank=False)
    return Records(engine.files(lines.table, step), lines.count, lines.source)


def separated_records(engine: Engine[Any], asked: Asked) -> Records:
    """CSV files, each with a first line that names its columns."""
    source = ", ".join(asked.paths)
    files = files_of(asked.paths, REMEDY)
    for file in files:
        try:
            names = header_of(file.name, asked.delimiter, asked.encoding)
        except ValueError as error:
            raise InputError(f"{file.name} {error}") from None
        _check_columns([(name, pa.string()) for name in names], file.name, asked.columns.fields)
    whole = table_of([Split(file.name, 0, None) for file in files])
    counted = engine.collect(engine.files(whole, count_separated_step(asked.delimiter, asked.encoding)))
    splits = numbered(splits_of(iter(counted.to_batches())))
    total = sum(split.rows or 0 for split in splits)
    if not total:
        raise InputError(f"{source} is empty")
    step = separated_step(
        asked.columns.fields, asked.columns, asked.form, asked.delimiter, asked.encoding, asked.offset
    )
    return Records(engine.files(table_of(splits), step), total, source)


def parquet_records(engine: Engine[Any], asked: Asked) -> Records:
    """Parquet files, or one catalog table (`table:NAME`), whose rows have no order and hence no numbers."""
    source, fields = ", ".join(asked.paths), asked.columns.fields
    if any(path.startswith(TABLE) for path in asked.paths):
        table = engine.read(asked.paths[0])
        schema = engine.schema(table)
        _check_columns([(field.name, field.type) for field in schema], source, fields)
        read = engine.read(asked.paths[0], [name for name in fields.names if name in schema.names])
        return Records(engine.map(read, table_step(fields, asked.columns, asked.form, source)), 0, source)
    files = files_of(asked.paths, REMEDY)
    splits, schema = parquet_splits(files, engine.workers)
    columns = [(field.name, field.type) for field in schema]
    folders = [(name, pa.string()) for name in partition_values(files[0].name) if name not in schema.names]
    _check_columns([*folders, *columns], source, fields)
    total = sum(split.rows or 0 for split in splits)
    if not total:
        raise InputError(f"{source} is empty")
    rows = engine.files(table_of(splits), parquet_step(fields, asked.columns, asked.form, asked.offset))
    return Records(rows, total, source)


def _check_columns(columns: Sequence[tuple[str, pa.DataType]], source: str, fields: Fields) -> None:
    """Refuse a table that lacks a column or has it twice, or where one is a list and should not be, or the other way
    round."""
    kinds, counts = dict(columns), Counter(name for name, _ in columns)
    twice = next((name for name in fields.names if counts[name] > 1), None)
    if twice is not None:
        raise InputError(f"{source}: the column {twice!r} is there {counts[twice]} times; keep one")
    missing = list(dict.fromkeys(name for name in (*fields.required, *fields.any_of) if name not in kinds))
    if missing:
        raise InputError(
            f"{source}: missing column{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))}; "
            f"it has {', '.join(kinds) or 'none'} (prepare.columns says what they are called)"
        )
    for name in fields.names:
        if name in fields.lists and fields.separator is not None:
            continue
        if name in kinds and _is_list(kinds[name]) != (name in fields.lists):
            wanted = "a list" if name in fields.lists else "a single value"
            raise InputError(f"{source}: column {name!r} is {_type_name(kinds[name])}, expected {wanted}")


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _type_name(kind: pa.DataType) -> str:
    try:
        return spark_type(kind)
    except KeyError:
        return str(kind)


def separator_of(settings: PrepareSettings) -> str | None:
    """The pattern between the elements of lists that are strings; None where lists are lists."""
    separator = settings.label_separator or ("single" if settings.format == "csv" else None)
    return SEPARATORS[separator] if separator else None


def record_texts(
    engine: Engine[Any], settings: PrepareSettings, columns: Columns, read: ReadRecords, check: Any
) -> Any:
    """The texts of all parts, numbered on from part to part unless they have ids. `check` is done with the labels."""

    def of_part(part: Part, offset: int) -> tuple[Any, int]:
        wanted = TextColumns(
            text=(columns.text,) if isinstance(columns.text, str) else tuple(columns.text),
            labels=columns.labels,
            check=check,
            text_id=columns.text_id,
            key=settings.group_key if settings.group_key != TEXT_KEY else None,
            role=columns.role if settings.split == "published" else None,
            roles=settings.roles,
            part_role=part.role,
            separator=separator_of(settings),
        )
        asked = Asked(
            paths_of(settings, part.texts),
            settings.encoding,
            wanted,
            AS_TEXTS,
            offset,
            delimiter=DELIMITERS[settings.delimiter],
        )
        records = read(engine, asked)
        if not records.count and columns.text_id is None:
            raise ConfigError(
                f"part {part.name!r}: the rows of {records.source} have no order; set prepare.columns.text_id"
            )
        return records.rows, records.count

    return all_parts(engine, settings, of_part)
