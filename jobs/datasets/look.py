"""The beginning of a file of texts: its format, and its columns with their first values."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from fusion.errors import InputError
from udfs.datasets.separated import DELIMITERS, records
from udfs.json_records import json_kind, parse_json
from udfs.splits import File, files_of, parquet_file
from udfs.text_files import LOOKED_AT, PARQUET, check_head, opened, unpacked

ROWS = 2000
"""Records that are looked at."""
BYTES = 4 << 20
"""Bytes of text that are looked at, after unpacking."""
COMPARED = 50
"""Records that must have as many fields as the first line, for a file to be taken for separated values."""


@dataclass(frozen=True)
class Head:
    """The first records of a file, by column."""

    source: str
    format: str
    columns: Mapping[str, Sequence[Any]]
    """Values that are missing are None."""
    rows: int
    whole: bool
    """Whether these are all records."""
    delimiter: str | None = None
    """The name of what is between the columns of a csv file."""


def look(path: str) -> Head:
    """The head of a file, or of the first file of a folder or pattern."""
    files = [file for file in files_of([path]) if file.size]
    if not files:
        raise InputError(f"{path} is empty")
    with opened(files[0].name, files[0].name) as stream:
        first = stream.read(LOOKED_AT)
    if first.startswith(PARQUET):
        return _parquet(files)
    check_head(first, files[0].name)
    text, whole = _text(files[0].name)
    start = text.lstrip()[:1]
    if not start:
        raise InputError(f"{files[0].name} is empty")
    whole = whole and len(files) == 1
    if start == "{":
        return _json_lines(files[0].name, text, whole)
    if start == "[":
        remedy = "one object per line is needed, as jq -c '.[]' writes them"
        raise InputError(f"{files[0].name} holds one JSON list; {remedy}")
    return _separated(files[0].name, text, whole)


def _parquet(files: Sequence[File]) -> Head:
    with parquet_file(files[0].name) as parquet:
        total = parquet.metadata.num_rows
        if not total:
            raise InputError(f"{files[0].name} is empty")
        batch = next(parquet.iter_batches(ROWS))
    names = batch.schema.names
    if len(set(names)) < len(names):
        raise InputError(f"{files[0].name} must name the columns, each once; they are: {', '.join(names)}")
    columns = {name: batch[name].to_pylist() for name in names}
    return Head(files[0].name, "parquet", columns, batch.num_rows, len(files) == 1 and total <= ROWS)


def _text(file: str) -> tuple[str, bool]:
    """The first lines of a text file, and whether these are all."""
    blocks = unpacked(opened(file, file), file)
    content = next(blocks, b"")
    whole = len(content) <= BYTES and next(blocks, None) is None
    if not whole:
        content = content[:BYTES]
        content = content[: content.rfind(b"\n") + 1] or content
    try:
        return content.decode(), whole
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{file} line {line}: not UTF-8; convert it, as in: iconv -f latin1 -t utf-8") from None


def _json_lines(file: str, text: str, whole: bool) -> Head:
    rows: list[dict[str, Any]] = []
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    for number, line in lines[:ROWS]:
        try:
            value = parse_json(line)
        except ValueError as error:
            hint = "; a record must stand on one line" if line.strip() == "{" else ""
            raise InputError(f"{file} line {number}: {error}{hint}") from None
        if not isinstance(value, dict):
            raise InputError(f"{file} line {number}: {json_kind(value)}, expected a JSON object")
        rows.append(value)
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Head(file, "jsonl", columns, len(rows), whole and len(lines) <= ROWS)


def _separated(file: str, text: str, whole: bool) -> Head:
    """Separated values, by whichever delimiter gives every record as many fields as the first line has."""
    fitting = {}
    for name, delimiter in DELIMITERS.items():
        try:
            rows = _rows(text, delimiter, whole)
        except ValueError:
            continue
        if len(rows) > 1 and len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows[:COMPARED]):
            fitting[name] = rows
    if not fitting:
        _check_even(file, text)
        raise InputError(
            f"{file} is neither JSON lines nor Parquet nor values separated by {', '.join(DELIMITERS)} under a line of "
            "column names. Files with one text per line, and labels in another file, are described in "
            "conf/datasets/generic.yaml"
        )
    delimiter = max(fitting, key=lambda name: len(fitting[name][0]))
    names, *rows = fitting[delimiter]
    if len(set(names)) < len(names) or not all(name.strip() for name in names):
        raise InputError(f"{file} line 1 must name the columns, each once; it is: {text.splitlines()[0][:100]!r}")
    rows = [row for row in rows if len(row) == len(names)]
    columns = {name: [row[place] or None for row in rows] for place, name in enumerate(names)}
    return Head(file, "csv", columns, len(rows), whole and len(rows) < ROWS, delimiter)


def _check_even(file: str, text: str) -> None:
    """Refuse by its line what would be separated values, but for a record with more or fewer fields than most."""
    for delimiter in DELIMITERS.values():
        found: list[tuple[int, list[str]]] = []
        with suppress(ValueError):
            found.extend(islice(records(io.StringIO(text, newline="\n"), delimiter), COMPARED))
        columns = len(found[0][1]) if found else 0
        odd = [(line, len(row)) for line, row in found if len(row) != columns]
        if columns > 1 and 2 * len(odd) < len(found):
            raise InputError(f"{file} line {odd[0][0]}: {odd[0][1]} fields, and the first line names {columns} columns")


def _rows(text: str, delimiter: str, whole: bool) -> list[list[str]]:
    found = records(io.StringIO(text, newline="\n"), delimiter)
    rows: list[list[str]] = []
    try:
        for _, row in found:
            rows.append(row)
            if len(rows) > ROWS:
                break
    except ValueError:
        # The last record may have been cut off.
        if whole:
            raise
    return rows
