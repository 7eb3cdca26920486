"""Texts with their labels as they were published, one row each, with whatever is wrong with it.

A row that cannot be used is kept with its problem, which begins with its place: file and line. So all of them can be
counted, and the first ones named.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.splits import Lines, lines_step
from udfs.steps import Batches, Step, whole_keys

WHITE = " \t\n\x0b\f\r"
"""White space of files: that of other alphabets may be part of a name."""
NOT_UTF8 = "not UTF-8; set prepare.encoding or prepare.label_encoding, or convert it"
NO_TEXT = "NULs instead of text; is the file whole, and is it UTF-8?"
BIGGEST = 2**63

TEXTS = pa.schema(
    [
        # In the order of the files; null in a catalog table, which has none.
        ("position", pa.int64()),
        ("text_id", pa.string()),
        ("text", pa.string()),
        ("words", pa.int32()),
        # The same for texts that are equal; null for those that are empty.
        ("digest", pa.string()),
        ("labels", pa.list_(pa.string())),
        ("key", pa.string()),
        ("role", pa.string()),
        ("problem", pa.string()),
    ]
)


class Text(NamedTuple):
    """What a reader makes of one record or line."""

    text: str | None
    labels: Iterable[str] | None
    text_id: str | None = None
    """None: its position is its id."""
    key: str | None = None
    """Texts of the same key stay in one fold."""
    role: str | None = None
    """train, validation or test, if the data says so."""


class Row(NamedTuple):
    """What was read at a place, or why nothing was."""

    position: int | None
    value: Any
    problem: str | None = None


class Form(NamedTuple):
    """What readers make: rows of texts, or rows of labels."""

    schema: pa.Schema
    batch: Callable[[Sequence[Row]], pa.RecordBatch]


def _text_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    nothing = Text(None, None)
    texts: list[Text] = [row.value or nothing for row in rows]
    position = pa.array([row.position for row in rows], pa.int64())
    ids = pa.array([text.text_id for text in texts], pa.string())
    content = pa.array([text.text for text in texts], pa.string())
    # As in Java's \S+, by which texts have always been counted.
    words = pc.fill_null(pc.count_substring_regex(content, r"[^ \t\n\x0b\f\r]+"), 0)
    columns = {
        "position": position,
        "text_id": pc.coalesce(ids, position.cast(pa.string())),
        "text": content,
        "words": words,
        "digest": pa.array(map(_digest, (text.text for text in texts), words.to_pylist()), pa.string()),
        "labels": pa.array([_distinct(text.labels) for text in texts], TEXTS.field("labels").type),
        "key": pa.array([text.key for text in texts], pa.string()),
        "role": pa.array([text.role for text in texts], pa.string()),
        "problem": pa.array([row.problem for row in rows], pa.string()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=TEXTS)


AS_TEXTS = Form(TEXTS, _text_batch)


def _digest(text: str | None, words: int) -> str | None:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest() if text and words else None


def _distinct(labels: Iterable[str] | None) -> list[str] | None:
    return None if labels is None else list(dict.fromkeys(labels))


def checked_ids(words: Iterable[str | None], first: int, labels: int | None, source: str = "") -> list[str]:
    """Label numbers from `first` on; where the number of labels is known, none may lie beyond it. A ValueError says
    which one is wrong."""
    words = list(words)
    for word in words:
        if word is None or re.fullmatch("[0-9]+", word) is None:
            raise ValueError(f"label id {_quoted(word)} is not a whole number")
    last = BIGGEST - 1 if labels is None else first + labels - 1
    ids = []
    for word in words:
        digits = str(word).lstrip("0") or "0"
        if len(digits) > len(str(BIGGEST)) or not first <= int(digits) <= last:
            several = f"from {first} on" if labels is None else f"{first} to {last} by {source}"
            raise ValueError(f"label id '{word}' is out of range: ids are {several} (prepare.first_label)")
        ids.append(digits)
    return ids


CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Characters that no name has, such as the end of file of DOS."""


def checked_names(words: Iterable[str | None]) -> list[str]:
    """Label names, or ids of any kind. None may be empty or hold a control character; a ValueError says so."""
    names = []
    for word in words:
        if word is None or not word.strip(WHITE):
            raise ValueError(f"label {_quoted(word)} is no name")
        if CONTROL.search(word):
            raise ValueError(f"label {_quoted(word)} holds a control character")
        names.append(word)
    return names


def _quoted(word: str | None) -> str:
    return "null" if word is None else f"'{word}'"


Parse = Callable[..., Any]
"""From a line or a record to what it says; a ValueError says what is wrong with it."""


def row_of(position: int | None, place: Callable[[], str], parse: Parse, given: object) -> Row:
    """What a parser makes of something, or its objection with the place."""
    try:
        return Row(position, parse(given))
    except ValueError as error:
        return Row(position, None, f"{place()}: {error}")


def line_rows(lines: Lines, parse: Parse, encoding: str, offset: int) -> Iterator[Row]:
    """The rows of some lines. `offset` is the number of rows before the first file."""
    for row, number, line in lines.rows():
        position, place = row + offset, partial(lines.place, number)
        try:
            text = line.decode(encoding)
        except UnicodeDecodeError:
            yield Row(position, None, f"{place()}: {NOT_UTF8}")
            continue
        if 4 * line.count(0) > len(line):
            yield Row(position, None, f"{place()}: {NO_TEXT}")
            continue
        yield row_of(position, place, parse, text)


def line_step(parse: Parse, form: Form, encoding: str, offset: int = 0, blank: bool = True) -> Step:
    """A step over splits of text files with one text, or one label, per line; `blank` says whether a blank line is one
    as well."""

    def run(lines: Lines) -> pa.RecordBatch:
        return form.batch(list(line_rows(lines, parse, encoding, offset)))

    return lines_step(run, form.schema, blank)


SIDE = "side"
OF_TEXTS, OF_LABELS = 0, 1
"""The file that a row comes from, where texts and their labels are in two."""
ALIGNED = TEXTS.append(pa.field(SIDE, pa.int8()))


def aligned_step(parse: Parse, encoding: str, offset: int, header: int, side: int) -> Step:
    """A step over splits of one of two files whose lines belong together."""

    def run(lines: Lines) -> pa.RecordBatch:
        rows = line_rows(lines, parse, encoding, offset - header)
        batch = _text_batch([row for row in rows if row.position is not None and row.position >= offset])
        return batch.append_column(SIDE, pa.array(np.full(batch.num_rows, side, np.int8)))

    return lines_step(run, ALIGNED)


def _merge(batches: Batches) -> Batches:
    for table in whole_keys(batches, ["position"]):
        texts, labels = (table.take(pa.array(np.arange(side, len(table), 2))) for side in (OF_TEXTS, OF_LABELS))
        problem = pc.coalesce(texts["problem"].combine_chunks(), labels["problem"].combine_chunks())
        merged = texts.set_column(TEXTS.get_field_index("labels"), "labels", labels["labels"])
        merged = merged.set_column(TEXTS.get_field_index("problem"), "problem", problem)
        yield from merged.select(TEXTS.names).cast(TEXTS).combine_chunks().to_batches()


MERGE = Step(_merge, TEXTS)
"""One row for the two at each position, by which they are grouped; they are sorted by their side."""
