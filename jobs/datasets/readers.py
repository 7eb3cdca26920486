"""What every format gives: texts with their labels as they were published, and what is known about the labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from fusion.errors import InputError
from fusion.registry import Registry
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.settings.prepare import Part, PrepareSettings, paths_of
from udfs.datasets.texts import AS_TEXTS, MERGE, OF_LABELS, OF_TEXTS, SIDE, Parse, Text, aligned_step, line_step
from udfs.splits import Split, count_step, files_of, line_splits, numbered, read_lines, splits_of, table_of

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
