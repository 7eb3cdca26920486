"""What every format gives: texts with their labels as they were published, and what is known about the labels.

Lines of text files, and records with named fields: JSON lines, CSV, Parquet files, or a catalog table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from fusion.errors import ConfigError, InputError
from fusion.registry import Registry
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.settings.prepare import Columns, Encoding, Part, PrepareSettings, paths_of
from udfs.datasets.records import SEPARATORS, Fields, TextColumns, parquet_step, partition_values, table_step
from udfs.datasets.separated import DELIMITERS, count_separated_step, header_of, separated_step
from udfs.datasets.texts import AS_TEXTS, MERGE, OF_LABELS, OF_TEXTS, SIDE, Form, Parse, Text, aligned_step, line_step
from udfs.splits import (
    Split,
    count_step,
    files_of,
    line_splits,
    numbered,
    parquet_splits,
    read_lines,
    splits_of,
    table_of,
)
from udfs.steps import spark_type

TEXT_KEY = "text"
"""The group key that every format has: the text itself."""
REMEDY = "; check prepare.folder and the names of the files"
COUNTED_HERE = 64 << 20
"""Bytes whose lines are counted sooner here than on Spark."""


@dataclass(frozen=True)
class RawDataset:
    """A dataset as published: the texts not read yet, the labels in memory.

    texts: rows of the engine with the columns of `udfs.datasets.texts.TEXTS`.
    labels: the columns of `udfs.datasets.records.LABELS`, in the order of their file; None if the format has no list of
    labels, so that those in use are all.
    """

    texts: Any
    labels: pa.Table | None = None
    label_source: str = ""


@dataclass(frozen=True)
class Reader:
    """A published form and how it is read."""

    name: str
    read: Callable[[Engine[Any], PrepareSettings], RawDataset]
    label_lines: bool
    """Whether each part has a file of labels next to its file of texts."""
    columns: bool
    """Whether the settings of columns apply, the group key's included."""


READERS: Registry[Reader] = Registry("format")


def reader(
    name: str, *, label_lines: bool = False, columns: bool = False
) -> Callable[[Callable[[Engine[Any], PrepareSettings], RawDataset]], Reader]:
    """Register a format."""

    def register(read: Callable[[Engine[Any], PrepareSettings], RawDataset]) -> Reader:
        return READERS.add(Reader(name, read, label_lines, columns))

    return register


@dataclass(frozen=True)
class LineFiles:
    """Text files whose lines have been counted, in the order of the files' names."""

    splits: tuple[Split, ...]
    count: int
    source: str
    """The files as messages name them."""

    @classmethod
    def of(cls, engine: Engine[Any], paths: list[str], blank: bool = True) -> LineFiles:
        """The files that paths and patterns stand for; `blank` says whether blank lines count."""
        source = ", ".join(paths)
        splits = line_splits(files_of(paths, REMEDY), engine.workers)
        small = sum((split.end or COUNTED_HERE) - split.begin for split in splits) <= COUNTED_HERE
        counting: Engine[Any] = LocalEngine() if small else engine
        counts = counting.collect(counting.files(table_of(splits), count_step(blank))) if splits else None
        counted = numbered(splits_of(iter(counts.to_batches()))) if counts is not None else []
        lines = sum(split.rows or 0 for split in counted)
        if not lines:
            raise InputError(f"{source} is empty")
        return cls(tuple(counted), lines, source)

    @property
    def table(self) -> pa.Table:
        return table_of(self.splits)

    def first_line(self) -> str:
        """What stands in line 1."""
        first = next(read_lines(next(split for split in self.splits if split.rows)))
        return first.values()[0].decode(errors="replace")


def one_per_line(engine: Engine[Any], settings: PrepareSettings, parse: Callable[[str], Text]) -> Any:
    """The texts of all parts from files with one text and its labels per line. `parse` raises a ValueError for a line
    that cannot be used; the place is added."""

    def read(part: Part, offset: int) -> tuple[Any, int]:
        files = LineFiles.of(engine, paths_of(settings, part.texts))
        step = line_step(lambda line: parse(line)._replace(role=part.role), AS_TEXTS, settings.encoding, offset)
        return engine.files(files.table, step), files.count

    return all_parts(engine, settings, read)


def aligned_texts(
    engine: Engine[Any], settings: PrepareSettings, labels_of: Callable[[LineFiles], Parse], header: int = 0
) -> Any:
    """The texts of all parts from two files each, whose lines belong together. `header` lines open each file of
    labels, for which `labels_of` gives the parser of a line."""

    def read(part: Part, offset: int) -> tuple[Any, int]:
        texts = LineFiles.of(engine, paths_of(settings, part.texts))
        labels = LineFiles.of(engine, paths_of(settings, part.labels or []))
        _same_length(texts, labels, header)

        def parse(line: str) -> Text:
            return Text(line, None, role=part.role)

        both = engine.union(
            engine.files(texts.table, aligned_step(parse, settings.encoding, offset, 0, OF_TEXTS)),
            engine.files(labels.table, aligned_step(labels_of(labels), settings.encoding, offset, header, OF_LABELS)),
        )
        return engine.group(both, ["position"], MERGE, [SIDE]), texts.count

    return all_parts(engine, settings, read)


def all_parts(engine: Engine[Any], settings: PrepareSettings, read: Callable[[Part, int], tuple[Any, int]]) -> Any:
    """The texts of all parts, numbered on from part to part. `read` gives the texts of a part and how many positions it
    takes, given the number of those before."""
    parts, offset = [], 0
    for part in settings.parts:
        texts, count = read(part, offset)
        parts.append(texts)
        offset += count
    return engine.union(*parts) if len(parts) > 1 else parts[0]


def _same_length(texts: LineFiles, labels: LineFiles, header: int) -> None:
    """Refuse files that cannot belong together, line by line."""
    if texts.count != labels.count - header:
        after = " after its header" if header else ""
        raise InputError(
            f"{texts.source} has {texts.count:,} lines and {labels.source} has {labels.count - header:,}{after}: "
            "line n of the one belongs to line n of the other, so they must have the same number"
        )


def unusable(what: str, count: int, first: list[dict[str, Any]]) -> InputError:
    """The error for rows that a reader could not use."""
    problems = "".join(f"\n  {row['problem']}" for row in first)
    return InputError(f"{count:,} of the {what} cannot be used. First:{problems}")


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
    splits, schemas = parquet_splits(files, engine.workers)
    for file, schema in zip(files, schemas, strict=True):
        columns = [(field.name, field.type) for field in schema]
        folders = [(name, pa.string()) for name in partition_values(file.name) if name not in schema.names]
        _check_columns([*folders, *columns], file.name, fields)
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
