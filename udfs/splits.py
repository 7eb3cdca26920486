"""Splits of files: what one call of a step reads of them.

A plain text file is divided into ranges of bytes, and a line belongs to the range in which it begins; a packed file is
one split; a Parquet file is divided into row groups. Lines are numbered after a first pass that counts them per split.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fusion.errors import InputError
from udfs.steps import Batches, Step
from udfs.stores.addresses import absolute, local_folder
from udfs.stores.cache import client_of
from udfs.stores.objects import files_below
from udfs.text_files import BLOCK, GZIP, LOOKED_AT, MARK, check_head, encoding_error, opened, unpacked, whole_lines

SMALLEST, LARGEST = 1 << 20, 64 << 20
"""Bytes of a split: enough to be worth a task, few enough to fit into memory several times."""
MOST_LINES = 1 << 17
"""Lines that are read at a time: 32 bytes each make a block."""
PER_WORKER = 4
"""Splits per worker, so that none waits long for the last one."""
CHANGED = "changed while it was read; run the job once more"

SPLITS = pa.schema(
    [
        ("file", pa.string()),
        ("begin", pa.int64()),
        ("end", pa.int64()),
        ("rows", pa.int64()),
        ("row_of_file", pa.int64()),
        ("row", pa.int64()),
    ]
)


class File(NamedTuple):
    """A file with its size in bytes."""

    name: str
    size: int
    modified: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True)
class Split:
    """A part of a file. Rows are lines, or rows of Parquet."""

    file: str
    begin: int
    """The first byte, or the first row group."""
    end: int | None
    """Behind the last byte or row group; None for the whole of a packed file."""
    rows: int | None = None
    """How many; None if they have not been counted."""
    row_of_file: int | None = None
    """How many rows of the file come before."""
    row: int | None = None
    """How many rows of all files come before."""


def table_of(splits: Iterable[Split]) -> pa.Table:
    """Splits as the table that `Engine.files` takes."""
    return pa.Table.from_pylist([vars(split) for split in splits], SPLITS)


def splits_of(batches: Batches) -> Iterator[Split]:
    """The splits in batches of that table."""
    for batch in batches:
        for row in batch.to_pylist():
            yield Split(**row)


def files_of(paths: Sequence[str], remedy: str = "") -> list[File]:
    """The files that paths, folders and patterns (`*`, `?`, `[a-z]`, `{a,b}`) stand for, by name; hidden ones are not.
    Errors say what to check, if the caller knows."""
    files: dict[str, File] = {}
    for path in paths:
        try:
            matching = {file.name: file for step in _without_braces(absolute(path)) for file in _matching(step)}
        except OSError as error:
            raise InputError(f"cannot read {path}: {error}{remedy}") from None
        if not matching:
            raise InputError(f"cannot read {path}: it does not exist{remedy}")
        files |= matching
    return [files[name] for name in sorted(files)]


def _without_braces(pattern: str) -> list[str]:
    choice, local = re.search(r"\{([^{}]*)\}", pattern), local_folder(pattern)
    # A file may have a name that looks like a pattern.
    if choice is None or (local is not None and local.exists()):
        return [pattern]
    before, after = pattern[: choice.start()], pattern[choice.end() :]
    return [path for word in choice[1].split(",") for path in _without_braces(before + word + after)]


def _matching(pattern: str) -> Iterator[File]:
    local = local_folder(pattern)
    if local is not None:
        for path in [local] if local.exists() else Path(local.anchor).glob(str(local.relative_to(local.anchor))):
            yield from _visible_files(str(path))
        return
    steps = pattern.rstrip("/").split("/")
    first = next((n for n, step in enumerate(steps) if n > 2 and set(step) & set("*?[")), len(steps))
    base, wanted = "/".join(steps[:first]), steps[first:]
    for file in _visible_files(base):
        inside = file.name[len(base) :].strip("/").split("/")
        if len(inside) >= len(wanted) and all(map(fnmatchcase, inside, wanted)):
            yield file


def _visible_files(path: str) -> Iterator[File]:
    for listed in files_below(path):
        if not any(step.startswith((".", "_")) for step in listed.name.split("/")):
            yield File(posixpath.join(path, listed.name) if listed.name else path, listed.size, listed.modified)


def line_splits(files: Sequence[File], workers: int = 1) -> list[Split]:
    """The splits of text files, not counted yet. Files in other encodings and packed in other ways are refused."""
    total = sum(file.size for file in files)
    size = min(max(total // (PER_WORKER * workers), SMALLEST), LARGEST)
    with ThreadPoolExecutor(16) as threads:
        packed = list(threads.map(_is_packed, files))
    return [split for file, whole in zip(files, packed, strict=True) for split in _ranges(file, size, whole)]


def _is_packed(file: File) -> bool:
    """Whether a file is gzip, by its bytes: names are what people make of them."""
    with _reading(file.name), opened(file.name, file.name) as stream:
        head = stream.read(LOOKED_AT)
    check_head(head, file.name)
    return head.startswith(GZIP)


def _ranges(file: File, size: int, whole: bool) -> list[Split]:
    if whole:
        return [Split(file.name, 0, None)]
    return [Split(file.name, begin, min(begin + size, file.size)) for begin in range(0, file.size, size)]


def count_step(blank: bool = True) -> Step:
    """Splits with the number of their rows: of lines, or of those that are not blank."""

    def run(batches: Batches) -> Batches:
        for split in splits_of(batches):
            rows = sum(_rows(block, blank) for block in _blocks(split))
            yield from table_of([Split(split.file, split.begin, split.end, rows)]).to_batches()

    return Step(run, SPLITS)


def _rows(block: bytes, blank: bool) -> int:
    if blank:
        return block.count(b"\n") + (not block.endswith(b"\n"))
    return sum(1 for line in block.split(b"\n") if line.strip())


def numbered(counted: Iterable[Split]) -> list[Split]:
    """Counted splits in the order of their files, with the number of rows before each."""
    rows, of_file, file, result = 0, 0, "", []
    for split in sorted(counted, key=lambda split: (split.file, split.begin)):
        of_file, file = of_file if split.file == file else 0, split.file
        count = split.rows or 0
        result.append(Split(file, split.begin, split.end, count, of_file, rows))
        rows, of_file = rows + count, of_file + count
    return result


@dataclass(frozen=True)
class Lines:
    """Some lines of a split, one after another."""

    split: Split
    content: bytes
    """Ends where a line ends; the last line of a file need not end with \\n."""
    before: int
    """The lines of the split before these."""
    rows_before: int
    """The rows of the split before these; the same unless blank lines are no rows."""
    blank: bool

    def rows(self) -> Iterator[tuple[int, int, bytes]]:
        """The number of each row, from 0 over all files; its place among these lines; and the line. Of counted splits
        only."""
        row = (self.split.row or 0) + self.rows_before
        for place, line in enumerate(self.values()):
            if self.blank or line.strip():
                yield row, place, line
                row += 1

    def values(self) -> list[bytes]:
        """The lines without what ends them, \\n or \\r\\n."""
        lines = self.content.removesuffix(b"\n").split(b"\n")
        return [line.removesuffix(b"\r") for line in lines] if b"\r" in self.content else lines

    def number(self, place: int) -> int:
        """The number of the line at a place of `values`, from 1 within the file."""
        counted = self.split.row_of_file if self.blank else None
        # Rows that were not counted are counted for the message.
        first = counted if counted is not None else _lines_before(self.split.file, self.split.begin)
        return first + self.before + place + 1

    def place(self, place: int) -> str:
        """A line as messages name it."""
        return f"{self.split.file} line {self.number(place)}"


def read_lines(split: Split, blank: bool = True) -> Iterator[Lines]:
    """The lines of a split, in blocks of bounded size unless a line is longer, and of few lines each. `blank` is as it
    was when the split was counted."""
    before = rows = 0
    for content in (piece for block in _blocks(split) for piece in _of_few_lines(block)):
        yield Lines(split, content, before, rows, blank)
        before += _rows(content, blank=True)
        rows += _rows(content, blank)
    if split.rows is not None and rows != split.rows:
        raise InputError(f"{split.file} {CHANGED}")


def _of_few_lines(block: bytes) -> Iterator[bytes]:
    """A block in pieces of at most so many lines: a line takes more memory than its bytes, if it is short."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))[MOST_LINES - 1 :: MOST_LINES] + 1
    for begin, end in pairwise([0, *ends.tolist(), len(block)]):
        if begin < end:
            yield block[begin:end]


def check_utf8(lines: Lines, source: str) -> None:
    """Refuse lines in other encodings: ids that differ by an accent only would become one."""
    try:
        lines.content.decode()
    except UnicodeDecodeError as error:
        number = lines.number(lines.content.count(b"\n", 0, error.start))
        raise encoding_error(source, number, lines.content) from None


def lines_step(parse: Callable[[Lines], pa.RecordBatch], schema: pa.Schema, blank: bool = True) -> Step:
    """A step over splits of text files: what a function makes of each block of lines."""

    def run(batches: Batches) -> Batches:
        for split in splits_of(batches):
            yield from map(parse, read_lines(split, blank))

    return Step(run, schema, in_python=True)


@lru_cache(maxsize=256)
def _lines_before(file: str, begin: int) -> int:
    """How many lines of a file begin before a byte. Kept: a message names several lines of a split."""
    return sum(block.count(b"\n") for block in _blocks(Split(file, 0, begin))) if begin else 0


def _blocks(split: Split) -> Iterator[bytes]:
    """The lines of a split in blocks of whole lines, without the file's byte order mark."""
    if split.end is None:
        yield from whole_lines(unpacked(opened(split.file, split.file), split.file))
        return
    with _reading(split.file), opened(split.file, split.file) as stream:
        yield from whole_lines(_range(stream, split.begin, split.end))


def _range(stream: Any, begin: int, end: int) -> Iterator[bytes]:
    """The bytes of the lines that begin in a range."""
    position = begin
    if begin:
        # The line that the byte before belongs to is another split's.
        stream.seek(begin - 1)
        position += len(stream.readline()) - 1
    while position < end:
        block = stream.read(min(BLOCK, end - position))
        if not block:
            return
        first, position = position == 0, position + len(block)
        if position >= end and not block.endswith(b"\n"):
            block += stream.readline()
        yield block.removeprefix(MARK) if first else block


@contextmanager
def _reading(file: str) -> Iterator[None]:
    """Failures of a file system or a store become errors that name the file."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {file}: {error}") from None


def parquet_splits(files: Sequence[File], workers: int = 1) -> tuple[list[Split], list[pa.Schema]]:
    """The splits of Parquet files, numbered, and the columns of each file."""
    total = sum(file.size for file in files)
    size = min(max(total // (PER_WORKER * workers), SMALLEST), LARGEST)
    with ThreadPoolExecutor(16) as threads:
        footers = list(threads.map(_footer, files))
    splits = [split for file, footer in zip(files, footers, strict=True) for split in _row_groups(file, footer, size)]
    return numbered(splits), [footer.schema.to_arrow_schema() for footer in footers]


def _footer(file: File) -> pq.FileMetaData:
    with parquet_file(file.name) as parquet:
        return parquet.metadata


@contextmanager
def parquet_file(file: str) -> Iterator[pq.ParquetFile]:
    """An open Parquet file, whose checksums are verified where it has some."""
    with _reading(file):
        client, path = client_of(file)
        with pq.ParquetFile(client.open_input_file(path), page_checksum_verification=True) as parquet:
            yield parquet


def _row_groups(file: File, footer: pq.FileMetaData, size: int) -> Iterator[Split]:
    begin, rows, held = 0, 0, 0
    for group in range(footer.num_row_groups):
        about = footer.row_group(group)
        rows, held = rows + about.num_rows, held + about.total_byte_size
        if held >= size or group == footer.num_row_groups - 1:
            yield Split(file.name, begin, group + 1, rows)
            begin, rows, held = group + 1, 0, 0


def read_row_groups(split: Split, columns: Sequence[str], rows: int = 4096) -> Iterator[pa.RecordBatch]:
    """The rows of a split of a Parquet file, with those of the columns that it has."""
    with parquet_file(split.file) as parquet:
        groups, names = list(range(split.begin, split.end or 0)), parquet.schema_arrow.names
        yield from parquet.iter_batches(rows, groups, [name for name in columns if name in names], use_threads=False)
