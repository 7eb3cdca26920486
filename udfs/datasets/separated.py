"""Separated values, as spreadsheets write them: a line of column names, then one record each.

A field in quotes may hold line breaks, so a file is read from its first line to its last by one worker.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from functools import partial
from typing import Any

from udfs.datasets.records import Fields, checked_record
from udfs.datasets.texts import NOT_UTF8, Form, Parse, Row, row_of
from udfs.splits import SPLITS, Split, splits_of, table_of
from udfs.steps import Batches, Step
from udfs.text_files import opened, unpacked, whole_lines

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|"}
LONGEST = 1 << 30
"""Characters of a field. Python's own limit, 131,072, is less than some texts have."""
ROWS = 4096

Record = tuple[int, list[str]]
"""The line on which a record begins, and its fields."""


def records(lines: Iterator[str], delimiter: str) -> Iterator[Record]:
    """The records of lines that keep their ends, blank lines left out; a ValueError says which line is broken."""
    csv.field_size_limit(LONGEST)
    reader, line = csv.reader(lines, delimiter=delimiter, strict=True), 1
    while True:
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise ValueError(f"line {line}: {error}; is a quote missing?") from None
        if fields:
            yield line, fields
        line = reader.line_num + 1


def decoded_lines(file: str, encoding: str, otherwise: str = NOT_UTF8) -> Iterator[str]:
    """The lines of a file with their ends; a ValueError says which one is in another encoding, and what then."""
    blocks = whole_lines(unpacked(opened(file, file), file))
    for number, line in enumerate((line for block in blocks for line in io.BytesIO(block)), 1):
        try:
            yield line.decode(encoding)
        except UnicodeDecodeError:
            raise ValueError(f"line {number}: {otherwise}") from None


def header_of(file: str, delimiter: str, encoding: str) -> list[str]:
    """The names of the columns; none if the file is empty."""
    _, names = next(records(decoded_lines(file, encoding), delimiter), (1, []))
    return names


def count_separated_step(delimiter: str, encoding: str) -> Step:
    """Files, each with the number of its records. A broken one is counted as far as it can be read."""

    def run(batches: Batches) -> Batches:
        for split in splits_of(batches):
            counted = sum(1 for _ in _until_broken(records(decoded_lines(split.file, encoding), delimiter)))
            yield from table_of([Split(split.file, 0, None, max(counted - 1, 0))]).to_batches()

    return Step(run, SPLITS, in_python=True)


def _until_broken(found: Iterator[Record]) -> Iterator[Record]:
    try:
        yield from found
    except ValueError:
        # The record that cannot be read is one, too: the second pass says what is wrong with it.
        yield 0, []


def separated_step(fields: Fields, parse: Parse, form: Form, delimiter: str, encoding: str, offset: int = 0) -> Step:
    """A step over counted files. `offset` is the number of records before the first file."""

    def rows_of(split: Split) -> Iterator[Row]:
        found = records(decoded_lines(split.file, encoding), delimiter)
        position, names = (split.row or 0) + offset, None
        try:
            for line, values in found:
                if names is None:
                    names = values
                    continue
                place = partial("{} line {}".format, split.file, line)
                yield row_of(position, place, partial(_parsed, parse, fields, names), values)
                position += 1
        except ValueError as error:
            yield Row(position, None, f"{split.file} {error}")

    def run(batches: Batches) -> Batches:
        for split in splits_of(batches):
            waiting: list[Row] = []
            for row in rows_of(split):
                waiting.append(row)
                if len(waiting) == ROWS:
                    yield form.batch(waiting)
                    waiting = []
            if waiting:
                yield form.batch(waiting)

    return Step(run, form.schema, in_python=True)


def _parsed(parse: Parse, fields: Fields, names: list[str], values: list[str]) -> Any:
    if len(values) != len(names):
        raise ValueError(f"{len(values)} fields, and the first line names {len(names)} columns")
    return parse(checked_record(dict(zip(names, values, strict=True)), fields))
