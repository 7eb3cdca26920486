"""Predictions as text files: JSON lines, CSV, and runs as TREC has them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyarrow as pa

from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.evaluation.fuse import trec_word
from jobs.storage.folders import ResultFolder, csv_cells
from udfs.prediction.texts import PLACE, TEXT_ID

Rows = Iterator[dict[str, Any]]
COLUMNS = (TEXT_ID, "rank", "label", "name", "score", "probability")
TAG = "xmtc-fusion"
UNORDERED, ORDERED = "unordered.parquet", "ordered.parquet"
"""Tables that text files are made from on Spark, and that do not stay."""


def json_lines(rows: Rows) -> Iterator[str]:
    """One object per text that has a label."""
    for text_id, of_text in groupby(rows, key=lambda row: row[TEXT_ID]):
        labels = [{name: row[name] for name in ("label", "name", "probability", "score")} for row in of_text]
        yield json.dumps({TEXT_ID: text_id, "labels": labels}, ensure_ascii=False) + "\n"


def csv_lines(rows: Rows) -> Iterator[str]:
    """One line per text and label, after a header."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(csv_cells(row[name] for name in COLUMNS))
        yield line.getvalue()
        line.seek(0)
        line.truncate()
    yield line.getvalue()


def trec_lines(rows: Rows) -> Iterator[str]:
    """text Q0 label rank score tag."""
    for row in rows:
        yield f"{trec_word(row[TEXT_ID])} Q0 {trec_word(row['label'])} {row['rank']} {row['score']!r} {TAG}\n"


FORMATS: dict[str, Callable[[Rows], Iterator[str]]] = {"jsonl": json_lines, "csv": csv_lines, "trec": trec_lines}
"""The lines of each format; the file is called predictions and ends as the format is called."""


def write_lines(engine: Engine[Any], predictions: Any, folder: ResultFolder, kind: str) -> int:
    """Write predictions as a text file; how many labels it holds."""
    count = 0

    def rows() -> Rows:
        nonlocal count
        for batch in _in_order(engine, predictions, folder):
            count += batch.num_rows
            yield from batch.to_pylist()

    folder.write_lines(f"predictions.{kind}", FORMATS[kind](rows()))
    return count


def _in_order(engine: Engine[Any], predictions: Any, folder: ResultFolder) -> Iterator[pa.RecordBatch]:
    """Predictions in the order of their texts. The texts of a table have none on Spark, where their ids decide."""
    if isinstance(engine, LocalEngine):
        yield from predictions.stream()
        return
    engine.write(predictions, f"{folder.uri}/{UNORDERED}")
    # Sorting looks at its rows twice, so it must not be what labels them.
    ordered = engine.read(f"{folder.uri}/{UNORDERED}").orderBy(PLACE, TEXT_ID, "rank")
    engine.write(ordered, f"{folder.uri}/{ORDERED}")
    yield from folder.parquet_batches(ORDERED)
    folder.remove(UNORDERED)
    folder.remove(ORDERED)
