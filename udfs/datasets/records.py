"""Records with named fields, from JSON lines, Parquet files and catalog tables: texts, or labels with their names."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from udfs.datasets.dividing import ROLES
from udfs.datasets.texts import WHITE, Form, Parse, Row, Text, row_of
from udfs.json_records import json_kind, parse_json
from udfs.splits import read_row_groups, splits_of
from udfs.steps import Batches, Step

LIST, TEXT = "a list", "a string or a number"
SEPARATORS = {
    "space": r"\s+",
    "tab": r"\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": r"\|",
    # Matches nowhere: the whole string is one label.
    "single": "(?!)",
}
"""What may be between labels that are written as one string, as patterns."""


def elements(value: str, separator: str) -> list[str]:
    """The elements of a list that is written as one string."""
    pieces = (piece.strip(WHITE) for piece in re.split(separator, value, flags=re.ASCII))
    return [piece for piece in pieces if piece]


@dataclass(frozen=True)
class Fields:
    """The fields that are read: as lists of strings or as strings. Others are passed over."""

    lists: Sequence[str] = ()
    texts: Sequence[str] = ()
    required: Sequence[str] = ()
    """Those that must be there: in every JSON line, or as columns of the table."""
    any_of: Sequence[str] = ()
    """Every JSON line must have one of these, and a table all of them."""
    separator: str | None = None
    """The pattern between the elements of a list that is written as one string; None: lists are lists."""

    @property
    def names(self) -> list[str]:
        return [*self.texts, *self.lists]


def json_record(line: str, fields: Fields) -> dict[str, Any]:
    """The fields of a JSON object, numbers as they are written; a ValueError says what is wrong with it."""
    return checked_record(parse_json(line, written_numbers=True), fields)


def checked_record(value: Any, fields: Fields) -> dict[str, Any]:
    """The fields of a record; a ValueError says what is wrong with it."""
    if not isinstance(value, dict):
        raise ValueError(f"{json_kind(value)}, expected a JSON object")
    if fields.separator is not None:
        value = {**value, **_split_lists(value, fields.lists, fields.separator)}
    for name in fields.lists:
        if not isinstance(value.get(name), list | None):
            what = f"the key {name!r} is {json_kind(value[name])}, expected {LIST}"
            raise ValueError(f"{what}; prepare.label_separator divides strings" if type(value[name]) is str else what)
        for element in value.get(name) or ():
            if not isinstance(element, str | None):
                raise ValueError(f"the key {name!r} holds {json_kind(element)}, expected strings or numbers")
    for name in fields.texts:
        if not isinstance(value.get(name), str | None):
            raise ValueError(f"the key {name!r} is {json_kind(value[name])}, expected {TEXT}")
    for name in fields.required:
        _check_present(value, [name], fields)
    _check_present(value, fields.any_of, fields)
    return {name: value.get(name) for name in (*fields.texts, *fields.lists)}


def _split_lists(value: Mapping[str, Any], lists: Iterable[str], separator: str) -> dict[str, list[str]]:
    """Those of the lists that are strings, as lists."""
    return {name: elements(value[name], separator) for name in lists if isinstance(value.get(name), str)}


def _check_present(value: Mapping[str, Any], names: Sequence[str], fields: Fields) -> None:
    """Refuse a record that has none of some keys."""
    if not names or any(value.get(name) is not None for name in names):
        return
    name = names[0]
    if len(names) > 1:
        raise ValueError(f"all of the keys {', '.join(map(repr, names))} are missing or null")
    if name in value:
        raise ValueError(f"the key {name!r} is null, expected {LIST if name in fields.lists else TEXT}")
    raise ValueError(f"the key {name!r} is missing; it has {', '.join(value)}")


def partition_values(file: str) -> dict[str, str]:
    """The columns that the folders on the way to a file give: `language=de` is one."""
    steps = [step.partition("=") for step in file.split("/")[:-1]]
    return {name: unquote(value) for name, equals, value in steps if equals}


def parquet_step(fields: Fields, parse: Parse, form: Form, offset: int = 0) -> Step:
    """A step over splits of Parquet files. `offset` is the number of rows before the first file."""

    def run(batches: Batches) -> Batches:
        for split in splits_of(batches):
            folders, before = partition_values(split.file), 0
            for batch in read_row_groups(split, fields.names):
                rows = []
                for number, record in enumerate(_records(batch, fields, folders), before):
                    place = partial("{} row {}".format, split.file, (split.row_of_file or 0) + number + 1)
                    rows.append(row_of((split.row or 0) + offset + number, place, _of_strings(parse, fields), record))
                yield form.batch(rows)
                before += batch.num_rows

    return Step(run, form.schema, in_python=True)


def table_step(fields: Fields, parse: Parse, form: Form, source: str) -> Step:
    """A step over the rows of a catalog table, which have no order and hence no numbers."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            records = _records(batch, fields, {})
            yield form.batch([row_of(None, lambda: source, _of_strings(parse, fields), record) for record in records])

    return Step(run, form.schema, in_python=True)


def _records(batch: pa.RecordBatch, fields: Fields, others: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The rows as they are; columns that are not there are null."""
    names = batch.schema.names
    columns = [
        batch[name].to_pylist() if name in names else [others.get(name)] * batch.num_rows for name in fields.names
    ]
    for values in zip(*columns, strict=True):
        yield dict(zip(fields.names, values, strict=True))


def _of_strings(parse: Parse, fields: Fields) -> Parse:
    """A parser of rows whose values become strings, as those of JSON are."""

    def run(record: Mapping[str, Any]) -> Any:
        values: dict[str, Any] = {
            name: list(map(as_text, value)) if isinstance(value, list) else as_text(value)
            for name, value in record.items()
        }
        if fields.separator is not None:
            values |= _split_lists(values, fields.lists, fields.separator)
        return parse(values)

    return run


def as_text(value: Any) -> str | None:
    """A value of a table as a string."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list | dict | tuple) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"a column holds {json_kind(value)}, expected strings or numbers")
    return str(value)


@dataclass(frozen=True)
class TextColumns:
    """Which fields of a record make a text."""

    text: tuple[str, ...]
    """Joined by line breaks, blank ones left out."""
    labels: str
    check: Callable[[Iterable[str | None]], list[str]]
    """What the labels must be; a ValueError says what is wrong with them."""
    text_id: str | None = None
    key: str | None = None
    role: str | None = None
    """The column that says to which part of a published split a text belongs."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """The role that each value of this column means, where it is not the role itself."""
    part_role: str | None = None
    """The role of all texts of these files."""
    separator: str | None = None
    """The pattern between labels that are one string; None: they are a list."""

    @property
    def fields(self) -> Fields:
        required = tuple(name for name in (self.labels, self.text_id, self.key, self.role) if name)
        texts = dict.fromkeys(name for name in (*self.text, self.text_id, self.key, self.role) if name)
        return Fields((self.labels,), tuple(texts), required, self.text, self.separator)

    def of_line(self, line: str) -> Text:
        """The text of a line of JSON."""
        return self(json_record(line, self.fields))

    def __call__(self, record: Mapping[str, Any]) -> Text:
        pieces = [record[name] for name in self.text]
        if len(pieces) > 1:
            pieces = ["\n".join(piece for piece in pieces if piece and piece.strip(WHITE))]
        labels = record[self.labels]
        return Text(
            text=pieces[0],
            labels=None if labels is None else self.check(labels),
            text_id=self._id(record),
            key=record[self.key] if self.key else None,
            role=self._role(record),
        )

    def _id(self, record: Mapping[str, Any]) -> str | None:
        if self.text_id is None:
            return None
        value: str | None = record[self.text_id]
        if value is None or not value.strip(WHITE):
            what = "null" if value is None else f"'{value}'"
            raise ValueError(f"{self.text_id} {what} is no id; without prepare.columns.text_id texts are numbered")
        return str(value)

    def _role(self, record: Mapping[str, Any]) -> str | None:
        if self.role is None:
            return self.part_role
        value = record[self.role]
        role = self.roles.get(value, value)
        if role not in ROLES:
            raise ValueError(
                f"{self.role} {value!r} is no role ({', '.join(ROLES)}); say in prepare.roles which one it stands for"
            )
        return str(role)


LABELS = pa.schema(
    [
        ("position", pa.int64()),
        ("label", pa.string()),
        ("name", pa.string()),
        ("alt_names", pa.list_(pa.string())),
        ("description", pa.string()),
        ("problem", pa.string()),
    ]
)


@dataclass(frozen=True)
class LabelColumns:
    """Which fields of a record say something about a label."""

    label: str | None
    """None: labels are found by their position."""
    name: str | None
    alt_names: str
    description: str
    separator: str | None = None
    """The pattern between other names that are one string; None: they are a list."""

    @property
    def fields(self) -> Fields:
        texts = tuple(name for name in (self.label, self.name, self.description) if name)
        return Fields((self.alt_names,), texts, (self.label,) if self.label else (), separator=self.separator)

    def of_line(self, line: str) -> dict[str, Any]:
        """What a line of JSON says."""
        return self(json_record(line, self.fields))

    def __call__(self, record: Mapping[str, Any]) -> dict[str, Any]:
        label = record[self.label] if self.label else None
        if self.label and not (label or "").strip(WHITE):
            raise ValueError("a label without a name")
        return {
            "label": label,
            "name": record[self.name] if self.name else None,
            "alt_names": record[self.alt_names],
            "description": record[self.description],
        }


def _label_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    values = [{"position": row.position, "problem": row.problem, **(row.value or {})} for row in rows]
    return pa.RecordBatch.from_pylist(values, LABELS)


AS_LABELS = Form(LABELS, _label_batch)
