"""Fused rankings as files: Parquet by cell, or one TREC, JSON Lines or ranx file per cell."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from fusion.errors import ConfigError, OutputError
from fusion.grid import Cell
from fusion.label_groups import ALL
from jobs.settings import Names

Lines = Callable[[Iterator[pa.RecordBatch], Cell], Iterator[str]]
FUSED = "fused.parquet"
CELL = ("normalization", "fusion")
_ESCAPED = "\"#%'*/:=?\\{[]^\x7f" + "".join(map(chr, range(1, 32)))
"""Characters that Spark escapes in the names of partition folders."""


def cell_folder(cell: Cell) -> str:
    """Where the Parquet files of a cell are, as Spark names partitions."""
    return "/".join(f"{name}={_escaped(value)}" for name, value in zip(CELL, cell, strict=True))


def _escaped(value: str) -> str:
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in value)


def file_names(cells: list[Cell], suffix: str) -> dict[Cell, str]:
    """A file per cell, named after it as far as file systems and shells like the characters."""
    names: dict[Cell, str] = {}
    for cell in cells:
        name = re.sub(r"[^\w.+=,()-]+", "_", str(cell))
        while f"{name}{suffix}" in names.values():
            name += "_"
        names[cell] = f"{name}{suffix}"
    return names


def trec_lines(batches: Iterator[pa.RecordBatch], cell: Cell) -> Iterator[str]:
    """text Q0 label rank score tag."""
    tag = quote(str(cell).replace(": ", ":"), safe="+:()=,.-_")
    for row in _rows(batches):
        text = _word(row["text_id"])
        for rank, (label, score) in enumerate(zip(row["label_ids"], row["scores"], strict=True), start=1):
            yield f"{text} Q0 {_word(label)} {rank} {score!r} {tag}\n"


def jsonl_lines(batches: Iterator[pa.RecordBatch], cell: Cell) -> Iterator[str]:
    """One object per list."""
    for row in _rows(batches):
        yield json.dumps(row, ensure_ascii=False) + "\n"


def ranx_lines(batches: Iterator[pa.RecordBatch], cell: Cell) -> Iterator[str]:
    """One object for the run, a line per text."""
    before = "{"
    for row in _rows(batches):
        scores = {str(label): score for label, score in zip(row["label_ids"], row["scores"], strict=True)}
        text = json.dumps(str(row["text_id"]), ensure_ascii=False)
        yield f"{before}\n{text}: {json.dumps(scores, ensure_ascii=False)}"
        before = ","
    yield "\n}\n" if before == "," else "{}\n"


FORMATS: dict[str, tuple[str, Lines]] = {
    "trec": (".trec", trec_lines),
    "jsonl": (".jsonl", jsonl_lines),
    "ranx": (".json", ranx_lines),
}
"""Formats of one text file per cell: how the file ends, and its lines."""
ONE_LIST = ("trec", "ranx")
"""Formats that hold one ranking per text, which is that of all labels unless a label group is named."""


def views_of(format_name: str, chosen: Names, views: tuple[str, ...]) -> tuple[str, ...]:
    """The label groups that are written: those chosen, as far as a format can hold them beside each other."""
    if format_name not in ONE_LIST or len(views) == 1:
        return views
    if chosen != "auto":
        groups = ", ".join(views)
        raise ConfigError(f"a {format_name} file holds one list per text: set fuse.label_groups to one of {groups}")
    return (ALL,)


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def _word(name: object) -> str:
    """An id within a line of words."""
    word = str(name)
    if not word or re.search(r"\s", word):
        raise OutputError(f"the id {word!r} does not fit into a TREC file, where white space ends an id: use jsonl")
    return word
