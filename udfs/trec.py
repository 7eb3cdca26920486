"""TREC files, runs and judgements, as lists: lines of a text that follow each other make one row."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from udfs.splits import Lines, Split, check_utf8, read_lines, splits_of
from udfs.steps import Batches, Step, key_starts

RUN_FIELDS = ("text_id", "q0", "label_id", "rank", "score", "tag")
QRELS_FIELDS = ("text_id", "iteration", "label_id", "relevance")
MIXED_UP = {
    RUN_FIELDS: "These look like lines of a run: give runs with --run NAME=PATH, judgements with --qrels PATH.",
    QRELS_FIELDS: "These look like judgements: give judgements with --qrels PATH, runs with --run NAME=PATH.",
}
NUMBER = re.compile(rb"(?i)^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?(nan|inf|infinity)$")
"""NaN and infinities are numbers here, so that they are reported as such, with the text they belong to."""
PLAIN_NUMBER = frozenset(b"0123456789.+-eE")
SHOWN_LINES = 5
LISTS = pa.list_(pa.string())
RUN_SCHEMA = pa.schema([("text_id", pa.string()), ("label_ids", LISTS), ("scores", pa.list_(pa.float64()))])
QRELS_SCHEMA = pa.schema([("text_id", pa.string()), ("label_ids", LISTS), ("grades", pa.list_(pa.float64()))])


def trec_runs(source: str) -> Step:
    """From splits of files to lists; `source` is their name in messages. A text may have several rows."""
    return _step(source, RUN_FIELDS, "score", RUN_SCHEMA)


def trec_judgements(source: str) -> Step:
    """From splits of files to judged labels with their grades, likewise."""
    return _step(source, QRELS_FIELDS, "relevance", QRELS_SCHEMA)


def _step(source: str, fields: Sequence[str], number: str, schema: pa.Schema) -> Step:
    def run(splits: Batches) -> Batches:
        for split in splits_of(splits):
            for lines in read_trec(split, source, fields, number):
                first = key_starts(pa.table({"text_id": lines["text_id"]}), ["text_id"])
                offset = pa.array(np.append(first, lines.num_rows), pa.int32())
                arrays = [
                    lines["text_id"].take(pa.array(first)),
                    pa.ListArray.from_arrays(offset, lines["label_id"]),
                    pa.ListArray.from_arrays(offset, lines[number]),
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    return Step(run, schema, in_python=True)


def read_trec(split: Split, source: str, fields: Sequence[str], number: str) -> Iterator[pa.RecordBatch]:
    """The columns of TREC lines as strings, `number` as a double, and `line`. A line that does not fit is an error."""
    column = fields.index(number)
    for block in read_lines(split):
        check_utf8(block, source)
        words = [(place, values) for place, line in enumerate(block.values()) if (values := line.split())]
        bad = [place for place, values in words if len(values) != len(fields) or not _is_number(values[column])]
        if bad:
            lines = block.values()
            shown = [(block.number(place), lines[place].decode(errors="replace")) for place in bad[:SHOWN_LINES]]
            raise bad_lines(source, fields, number, shown)
        if words:
            yield _batch(words, fields, column, block)


def _batch(
    words: Sequence[tuple[int, list[bytes]]], fields: Sequence[str], column: int, block: Lines
) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {}
    for i, name in enumerate(fields):
        values = [row[1][i] for row in words]
        if i == column:
            columns[name] = pa.array(map(float, values), pa.float64(), size=len(values))
        else:
            columns[name] = pa.array(values, pa.binary()).cast(pa.string())
    # From 0, within the split.
    columns["line"] = pa.array([block.before + row[0] for row in words], pa.int64())
    return pa.RecordBatch.from_pydict(columns)


def _is_number(word: bytes) -> bool:
    # Python takes more for a number than people do, 1_000 for instance; most words need no second look.
    if PLAIN_NUMBER.issuperset(word):
        try:
            float(word)
        except ValueError:
            return False
        return True
    return NUMBER.match(word) is not None


def bad_lines(source: str, fields: Sequence[str], number: str, lines: Sequence[tuple[int, str]]) -> InputError:
    """The error for lines of a TREC file that do not fit: their numbers, and what they say."""
    shown = "\n".join(f"  line {n}: {text[:200]!r}" for n, text in lines[:SHOWN_LINES])
    columns = {len(text.split()) for _, text in lines}
    hint = next((f"\n{words}" for other, words in MIXED_UP.items() if columns == {len(other)} != {len(fields)}), "")
    return InputError(
        f"{source}: expected lines of {len(fields)} columns ({' '.join(fields)}) with a number as {number}; "
        f"found\n{shown}{hint}"
    )


class Judgement(NamedTuple):
    """A line of a file of judgements."""

    line: int
    text_id: str
    label_id: str
    grade: float


def repeated_judgements(path: str, source: str) -> InputError | None:
    """The error for labels that are judged more than once, with their lines; None if no label is."""
    lines: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    # As one split, in which lines are numbered from the file's first one.
    for batch in read_trec(Split(path, 0, None), source, QRELS_FIELDS, "relevance"):
        rows = zip(*(batch[name].to_pylist() for name in ("line", "text_id", "label_id", "relevance")), strict=True)
        for line, text, label, grade in rows:
            lines[text, label].append(Judgement(line + 1, text, label, grade))
    repeated = ((key, same) for key, same in lines.items() if len(same) > 1)
    shown = [_repeated(*key, same) for key, same in islice(repeated, SHOWN_LINES)]
    if not shown:
        return None
    return InputError(f"{source}: a label is judged more than once; keep one judgement of each:{''.join(shown)}")


def _repeated(text: str, label: str, same: Sequence[Judgement]) -> str:
    kind = "contradict each other" if len({judgement.grade for judgement in same}) > 1 else "repeat each other"
    where = " and ".join(f"line {judgement.line:,} (grade {judgement.grade:g})" for judgement in same[:SHOWN_LINES])
    return f"\n  text {text!r}, label {label!r}: {where} {kind}"
