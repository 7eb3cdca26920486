"""The results of a job: a new version inside the output, made current by one put, and readable by plain paths."""

from __future__ import annotations

import csv
import hashlib
import html
import io
import json
import posixpath
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileType

from fusion.errors import InputError, OutputError, visible
from jobs.runtime.log import LOGGER, counts_text, duration_text, heartbeat, log_fields
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.storage.versions import (
    HIDDEN,
    NOTE,
    POINTER,
    RESULT_FILE,
    VERSION_NAME,
    Versions,
    announce,
    json_object,
    pointer,
    publish,
    resolve,
)
from udfs.stores.addresses import locate
from udfs.stores.cache import client_of
from udfs.stores.clients import StoreError
from udfs.stores.objects import children, delete_file, delete_folder, files_below, put, read_bytes, type_of


def one_line(text: str) -> str:
    """Prose on one line: its line breaks are spaces there."""
    return visible(" ".join(text.split()))


def escape(text: str) -> str:
    """Text within HTML, also within the quotes of an attribute."""
    return html.escape(visible(text, lines=True))


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns on a terminal: the first two to the left, numbers to the right."""
    lines = [[visible(word) for word in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    aligned = ([word.ljust if i < 2 else word.rjust for i, word in enumerate(line)] for line in lines)
    return "\n".join(
        "  ".join(align(width) for align, width in zip(line, widths, strict=True)).rstrip() for line in aligned
    )


def csv_cells(values: Iterable[Any]) -> list[Any]:
    """The cells of a line of CSV. Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    shown = (visible(value) if isinstance(value, str) else value for value in values)
    return [f"'{value}" if isinstance(value, str) and value.startswith(tuple("=+-@")) else value for value in shown]


def fenced(text: str, kind: str = "") -> str:
    """A block of Markdown, within a fence that is longer than any in the text."""
    text = visible(text, lines=True)
    longest = max((len(run) for run in re.findall("~+", text)), default=0)
    fence = "~" * max(3, longest + 1)
    return f"{fence}{kind}\n{text.rstrip(chr(10))}\n{fence}"


CONFIG_FILE = "config.yaml"
"""The resolved configuration of a job's results."""
LINES_AT_ONCE = 1_000
"""Lines of a text file that are written in one call."""
READING_TIME = 3600.0
"""Seconds for which a version that was replaced stays, for those who are reading it."""
LEFT_AFTER = 2 * 86_400.0
"""Seconds after which a version without a marker is taken for one that a killed writer left."""


class ResultFolder:
    """A folder being written."""

    def __init__(self, path: str) -> None:
        self._path = path
        place = locate(path)
        if place.is_file:
            Path(place.path).mkdir(parents=True, exist_ok=True)
        self.uri = place.spark
        """The folder as Spark names it."""

    def remove(self, name: str) -> None:
        """Delete a folder of scratch tables inside this one."""
        delete_folder(f"{self._path}/{name}")

    def write_text(self, name: str, text: str) -> None:
        self.write_bytes(name, text.encode("utf-8"))

    def write_bytes(self, name: str, content: bytes) -> None:
        place = locate(f"{self._path}/{name}")
        if not place.is_file:
            put(place.spark, content)
            return
        # Nothing counts before the marker is there, and all files are flushed before that.
        Path(place.path).parent.mkdir(parents=True, exist_ok=True)
        Path(place.path).write_bytes(content)

    def write_parquet(self, name: str, table: pa.Table) -> None:
        """A Parquet folder of one file, as Spark would write it."""
        self.write_bytes(f"{name}/part-0.parquet", _parquet(table))

    def write_rows(self, name: str, rows: Any) -> None:
        """The same of an Arrow table, or of a DataFrame."""
        if isinstance(rows, pa.Table):
            self.write_parquet(name, rows)
        else:
            rows.write.parquet(f"{self.uri}/{name}")

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """A text file, written as the lines come."""
        client, path = client_of(f"{self._path}/{name}")
        rest = iter(lines)
        with client.open_output_stream(path) as stream:
            while block := "".join(islice(rest, LINES_AT_ONCE)):
                stream.write(block.encode("utf-8"))

    def partitions(self, name: str) -> list[tuple[str, ...]]:
        """The values that name the folders (`column=value/column=value`) of a table that Spark wrote here."""
        folders = {listed.name.rpartition("/")[0] for listed in files_below(f"{self._path}/{name}")}
        values = [[part.partition("=")[2] for part in folder.split("/")] for folder in folders if folder]
        return [tuple(map(unquote, of_folder)) for of_folder in values]

    def parquet_batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of the Parquet files in a folder, in the order of their names."""
        for file in children(f"{self._path}/{name}"):
            if file.endswith(".parquet"):
                client, path = client_of(f"{self._path}/{name}/{file}")
                with client.open_input_file(path) as stream:
                    yield from pq.ParquetFile(stream).iter_batches()

    def write_table(self, name: str, table: pa.Table, as_csv: bool = True) -> None:
        """The same rows as `name.parquet` and, where people may read them, `name.csv`; lists are JSON there."""
        self.write_bytes(f"{name}.parquet", _parquet(table))
        if not as_csv:
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(zip(*map(_csv_fields, table.columns), strict=True))
        self.write_text(f"{name}.csv", text.getvalue())


def _csv_fields(column: pa.ChunkedArray) -> list[Any]:
    """The cells of a column; a list as JSON, which every program can read. A value that repeats is looked at once."""
    values: list[Any] = column.to_pylist()
    if pa.types.is_list(column.type):
        values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    elif not pa.types.is_string(column.type):
        return values
    distinct = list(dict.fromkeys(values))
    cells = dict(zip(distinct, csv_cells(distinct), strict=True))
    return [cells[value] for value in values]


@contextmanager
def result_folder(settings: OutputSettings, config: Config) -> Iterator[ResultFolder]:
    """The folder of a job's results, with the resolved configuration in it."""
    with whole_folder(settings) as folder:
        yield folder
        folder.write_text(CONFIG_FILE, config.to_yaml())


@contextmanager
def whole_folder(settings: OutputSettings) -> Iterator[ResultFolder]:
    """A folder to write in. It becomes the current version at the end of the block; after an error nothing has changed.

    What is there is replaced only if it is ours.
    """
    if settings.path is None:
        raise OutputError("no output: give --output PATH, or set output.path")
    versions = Versions.of_results(settings.path)
    with output_errors(settings.path):
        _check_place(settings)
        name = versions.new_name(hashlib.sha256(uuid.uuid4().bytes).hexdigest()[:16])
        folder = ResultFolder(versions.folder(name))
    try:
        with output_errors(settings.path):
            yield folder
            _check_place(settings)
            # Whatever happens to the plain paths, the next writer knows which of them are ours.
            files = {listed.name: listed.size for listed in files_below(versions.folder(name))}
            versions.complete(name, {"files": files})
            announce(versions, name)
            replaced = pointer(versions.root) is not None
            versions.make_current(name)
            publish(versions, name, replaced)
            _sweep(versions, name)
    except BaseException:
        if pointer(versions.root) != name:
            discard(versions, name)
        raise


@contextmanager
def output_errors(path: str) -> Iterator[None]:
    """Failures of a file system or a store become errors that name the output."""
    try:
        yield
    except StoreError as error:
        raise OutputError(str(error)) from None
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write to {path}: {error}") from None


def _sweep(versions: Versions, current: str) -> None:
    """Remove versions that are no longer read, and those that killed writers have left."""
    for entry in children(f"{versions.root}/{HIDDEN}"):
        name = f"{HIDDEN}/{entry}"
        if name == current or not VERSION_NAME.fullmatch(entry):
            continue
        files = files_below(versions.folder(name))
        age = time.time() - max((listed.modified for listed in files), default=time.time())
        if age > (READING_TIME if versions.about(name) is not None else LEFT_AFTER):
            delete_folder(versions.folder(name))


def discard(versions: Versions, name: str) -> None:
    """After an error: remove what was written, and folders that were made for it."""
    with suppress(OSError):
        delete_folder(versions.folder(name))
        place = locate(versions.root)
        if place.is_file:
            for folder in (Path(place.path) / versions.inside, Path(place.path)):
                if folder.exists():
                    folder.rmdir()


def read_text(path: str) -> str | None:
    """The text of a small file, None if there is none."""
    with input_errors(path):
        content = read_bytes(resolve(path))
        return None if content is None else content.decode("utf-8-sig")


def read_object(path: str) -> dict[str, Any]:
    """A small file that holds a JSON object; an empty one if there is no file."""
    text = read_text(path)
    try:
        value = {} if text is None else json.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is cut short or damaged: {error}. Make it again") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} is damaged: expected a JSON object, found {type(value).__name__}. Make it again")
    return value


def check_whole(path: str) -> None:
    """Refuse results whose version has lost files since it was written, or holds other ones. Where results lie without
    versions, as copies do, there is nothing to go by."""
    with input_errors(path):
        place = resolve(path)
        if posixpath.basename(posixpath.dirname(place)) != HIDDEN:
            return
        there = {listed.name: listed.size for listed in files_below(place)}
        written = (json_object(f"{place}/{RESULT_FILE}") or {}).get("files")
    if not isinstance(written, dict):
        raise InputError(f"{path} is not complete: {place}/{RESULT_FILE} is missing or damaged. Make it again")
    gone = [name for name in written if name not in there]
    # CSV is for people, who may edit it; nothing here reads it.
    other = [name for name in written if there.get(name, written[name]) != written[name] and not name.endswith(".csv")]
    if gone or other:
        reasons = {f"{len(gone)} of {len(written)} files are gone": gone, "of another size than written": other}
        lost = "; ".join(f"{reason}: {', '.join(names[:3])}" for reason, names in reasons.items() if names)
        raise InputError(f"{path} is not complete: {lost} (in {place}). Make it again")


def read_parquet(path: str) -> pa.Table | None:
    """A small table, None if there is none."""
    with input_errors(path):
        place = resolve(path)
        names = [listed.name for listed in files_below(place) if not listed.name.startswith((".", "_"))]
        parts = [read_bytes(f"{place}/{name}" if name else place) for name in names]
        # Not by a scan: its threads may hold Python's bytes until Python has ended, which then ends by a signal.
        tables = [pq.ParquetFile(pa.BufferReader(content)).read() for content in parts if content is not None]
    return pa.concat_tables(tables) if tables else None


@contextmanager
def input_errors(path: str) -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise InputError(str(error)) from None
    except UnicodeDecodeError:
        raise InputError(f"cannot read {path}: it is not text in UTF-8") from None
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def remove_folder(path: str) -> None:
    """Delete a folder, if there is one."""
    delete_folder(path)


@contextmanager
def stage_line(name: str, path: str | None) -> Iterator[dict[str, Any]]:
    """A line in the log when the block is done: how long it took, the size of what it wrote, and the counts it adds."""
    begin = time.monotonic()
    counts: dict[str, Any] = {}
    LOGGER.debug(f"{name}: started", extra={"fields": {"stage": name, "event": "started"}})
    with heartbeat(name):
        yield counts
    seconds = round(time.monotonic() - begin, 1)
    size = {} if path is None else {"bytes": folder_size(path)}
    sentence = f"{name}: {counts_text(counts)} in {duration_text(seconds)}"
    log_fields(sentence, stage=name, seconds=seconds, **size, **counts)


def folder_size(path: str) -> int:
    """The bytes of all files in a folder, or in its current version; 0 if there is none."""
    return sum(listed.size for listed in files_below(resolve(path)))


def modified(path: str) -> str:
    """When a file was written, to the second (UTC)."""
    for listed in files_below(resolve(path)):
        moment = datetime.fromtimestamp(listed.modified, timezone.utc)
        return moment.strftime("%Y-%m-%d %H:%M:%S")
    return "unknown"


def check_output(settings: OutputSettings) -> None:
    """Refuse a place that is taken, or that cannot be written and read, before any work is done."""
    if settings.path is None:
        return
    with output_errors(settings.path):
        _check_place(settings)
        probe(settings.path)


def check_folder(settings: OutputSettings) -> None:
    """Refuse a catalog table where results are files."""
    if settings.table is not None:
        raise OutputError(f"{settings.path} is a catalog table, which only predict can write: give a folder")


def probe(path: str) -> None:
    """Write, read and delete a small file where a folder is to be."""
    place = locate(path)
    if place.is_file:
        existing = Path(place.path)
        while not existing.exists():
            existing = existing.parent
        if not existing.is_dir():
            raise OutputError(f"cannot write to {path}: {existing} is not a folder")
        target = str(existing / f".xmtc-fusion-{uuid.uuid4().hex[:12]}")
    else:
        target = f"{place.spark}/{HIDDEN}/probe-{uuid.uuid4().hex[:12]}"
    put(target, b"probe")
    if read_bytes(target) != b"probe":
        raise OutputError(f"cannot write to {path}: what was written there cannot be read back")
    delete_file(target)


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())


def _check_place(settings: OutputSettings) -> None:
    """Whether the results may go where the settings say: into nothing, or over earlier results."""
    check_folder(settings)
    path = str(settings.path).rstrip("/")
    ours = (pointer(path) or "").startswith(HIDDEN)
    if not ours and not _occupied(path):
        return
    if not ours:
        raise OutputError(
            f"{settings.path} exists already and is left alone: it does not hold earlier results of xmtc-fusion "
            f"({POINTER} is missing). Choose another output, or remove it yourself"
        )
    if settings.mode == "error":
        raise OutputError(f"{settings.path} exists already; choose another output, or --mode overwrite to replace it")


def _occupied(path: str) -> bool:
    """Whether something is at a place that no writer of results has left there. A store may show folders of nothing."""
    if type_of(path) == FileType.File:
        return True
    # Versions without a pointer are what a killed writer left.
    names = [name for name in children(path) if name not in (HIDDEN, POINTER, NOTE)]
    return bool(names) and (locate(path).is_file or any(files_below(f"{path}/{name}") for name in names))
