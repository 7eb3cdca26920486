"""Results that appear whole or not at all: written beside their place, then moved there in one step."""

from __future__ import annotations

import csv
import io
import json
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from fusion.errors import InputError, OutputError
from jobs.config import Config
from jobs.runtime.safe_text import csv_cells
from jobs.settings import OutputSettings
from udfs.storage import in_volume, local_folder

CONFIG_FILE, STAGE_FILE = "config.yaml", "stage.json"
"""The resolved configuration of a job's results, and the fingerprint of a stage: what marks a folder as ours."""
LEFT_AFTER = timedelta(days=2)
"""How long a folder may be under way."""


class ResultFolder:
    """A folder being written."""

    def __init__(self, filesystem: fs.FileSystem, path: str, uri: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self.uri = uri
        """The folder as Spark names it."""

    def remove(self, name: str) -> None:
        """Delete a folder of scratch tables inside this one."""
        self._filesystem.delete_dir(f"{self._path}/{name}")

    def write_text(self, name: str, text: str) -> None:
        self.write_bytes(name, text.encode("utf-8"))

    def write_bytes(self, name: str, content: bytes) -> None:
        path = f"{self._path}/{name}"
        self._filesystem.create_dir(path.rpartition("/")[0], recursive=True)
        with self._filesystem.open_output_stream(path) as stream:
            stream.write(content)

    def write_parquet(self, name: str, table: pa.Table) -> None:
        """A Parquet folder of one file, as Spark would write it."""
        self._filesystem.create_dir(f"{self._path}/{name}", recursive=True)
        with self._filesystem.open_output_stream(f"{self._path}/{name}/part-0.parquet") as stream:
            pq.write_table(table, stream)

    def write_lines(self, name: str, lines: Iterable[str]) -> None:
        """A text file, written as the lines come."""
        with self._filesystem.open_output_stream(f"{self._path}/{name}") as stream:
            for line in lines:
                stream.write(line.encode("utf-8"))

    def partitions(self, name: str) -> list[tuple[str, ...]]:
        """The values that name the folders (`column=value/column=value`) of a table that Spark wrote here."""
        files = self._filesystem.get_file_info(fs.FileSelector(f"{self._path}/{name}", recursive=True))
        folders = {info.path.partition(f"/{name}/")[2].rpartition("/")[0] for info in files if info.is_file}
        parts = [[part.partition("=")[2] for part in folder.split("/")] for folder in folders if folder]
        return [tuple(map(unquote, values)) for values in parts]

    def parquet_batches(self, name: str) -> Iterator[pa.RecordBatch]:
        """The rows of the Parquet files in a folder, in the order of their names."""
        selected = self._filesystem.get_file_info(fs.FileSelector(f"{self._path}/{name}"))
        for path in sorted(info.path for info in selected if info.base_name.endswith(".parquet")):
            with self._filesystem.open_input_file(path) as file:
                yield from pq.ParquetFile(file).iter_batches()

    def write_table(self, name: str, table: pa.Table, as_csv: bool = True) -> None:
        """The same rows as `name.parquet` and, where people may read them, `name.csv`; lists are JSON there."""
        with self._filesystem.open_output_stream(f"{self._path}/{name}.parquet") as stream:
            pq.write_table(table, stream, compression="zstd")
        if not as_csv:
            return
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(map(csv_cells, zip(*map(_csv_fields, table.columns), strict=True)))
        self.write_text(f"{name}.csv", text.getvalue())


def _csv_fields(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; a list as JSON, which every program can read."""
    values: list[Any] = column.to_pylist()
    if not pa.types.is_list(column.type):
        return values
    return [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]


@contextmanager
def result_folder(settings: OutputSettings, config: Config) -> Iterator[ResultFolder]:
    """The folder of a job's results, with the resolved configuration in it."""
    with whole_folder(settings) as folder:
        yield folder
        folder.write_text(CONFIG_FILE, config.to_yaml())


@contextmanager
def whole_folder(settings: OutputSettings, only_ours: bool = True) -> Iterator[ResultFolder]:
    """A folder to write in. It takes its place at the end of the block; after an error nothing has changed.

    What is there is replaced only if it is marked as ours, unless the caller says that the place is.
    """
    if settings.path is None:
        raise OutputError("no output: give --output PATH, or set output.path")
    try:
        filesystem, path, prefix = _locate(settings.path)
        if only_ours:
            _check_place(filesystem, path, settings)
        parent, _, name = path.rpartition("/")
        unique = uuid.uuid4().hex[:12]
        staging, aside = f"{parent}/.{name}.{unique}.part", f"{parent}/.{name}.{unique}.old"
        filesystem.create_dir(staging, recursive=True)
        _sweep(filesystem, parent, name)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write to {settings.path}: {error}") from None
    try:
        folder = ResultFolder(filesystem, staging, prefix + staging)
        yield folder
        replaced = _exists(filesystem, path)
        if replaced:
            if only_ours:
                _check_place(filesystem, path, settings)
            filesystem.move(path, aside)
        try:
            filesystem.move(staging, path)
        except BaseException:
            if replaced:
                filesystem.move(aside, path)
            raise
        if replaced:
            filesystem.delete_dir(aside)
    except (OSError, pa.ArrowException) as error:
        raise OutputError(f"cannot write to {settings.path}: {error}") from None
    finally:
        if _exists(filesystem, staging):
            filesystem.delete_dir(staging)


def read_text(path: str) -> str | None:
    """The text of a small file, None if there is none."""
    filesystem, inner, _ = _locate(path)
    if not _exists(filesystem, inner):
        return None
    with filesystem.open_input_stream(inner) as stream:
        return bytes(stream.read()).decode("utf-8")


def remove_folder(path: str) -> None:
    """Delete a folder, if there is one."""
    filesystem, inner, _ = _locate(path)
    if _exists(filesystem, inner):
        filesystem.delete_dir(inner)


def folder_size(path: str) -> int:
    """The bytes of all files in a folder; 0 if there is none."""
    filesystem, inner, _ = _locate(path)
    if not _exists(filesystem, inner):
        return 0
    return sum(info.size or 0 for info in filesystem.get_file_info(fs.FileSelector(inner, recursive=True)))


def read_parquet(path: str) -> pa.Table | None:
    """A small table, None if there is none."""
    filesystem, inner, _ = _locate(path)
    if not _exists(filesystem, inner):
        return None
    try:
        return pq.read_table(inner, filesystem=filesystem)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}") from None


def modified(path: str) -> str:
    """When a file was written, to the second (UTC)."""
    filesystem, inner, _ = _locate(path)
    moment = filesystem.get_file_info(inner).mtime
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S") if moment else "unknown"


def check_output(settings: OutputSettings) -> None:
    """Refuse a place that is taken, before any work is done."""
    if settings.path is not None:
        filesystem, path, _ = _locate(settings.path)
        _check_place(filesystem, path, settings)


def _locate(path: str) -> tuple[fs.FileSystem, str, str]:
    """The file system of a path, the path in it, and what to put before it for Spark."""
    local = local_folder(path)
    if local is not None:
        return fs.LocalFileSystem(), str(local.absolute()), "" if in_volume(local.absolute()) else "file://"
    filesystem, inner = fs.FileSystem.from_uri(path)
    return filesystem, inner.rstrip("/"), path[: path.index(inner.rstrip("/"))]


def _sweep(filesystem: fs.FileSystem, parent: str, name: str) -> None:
    """Remove what writers of the same place left when they were killed, long enough ago to be sure that they were."""
    long_ago = datetime.now(timezone.utc) - LEFT_AFTER
    for info in filesystem.get_file_info(fs.FileSelector(parent)):
        staging = re.fullmatch(rf"\.{re.escape(name)}\.[0-9a-f]{{12}}\.part", info.base_name)
        if staging and info.mtime is not None and info.mtime < long_ago:
            filesystem.delete_dir(info.path)


def _exists(filesystem: fs.FileSystem, path: str) -> bool:
    return bool(filesystem.get_file_info(path).type != fs.FileType.NotFound)


def _check_place(filesystem: fs.FileSystem, path: str, settings: OutputSettings) -> None:
    if not _exists(filesystem, path):
        return
    if settings.mode == "error":
        raise OutputError(f"{settings.path} exists already; choose another output, or --mode overwrite to replace it")
    folder = filesystem.get_file_info(path).type == fs.FileType.Directory
    ours = folder and any(_exists(filesystem, f"{path}/{name}") for name in (CONFIG_FILE, STAGE_FILE))
    if not folder or (filesystem.get_file_info(fs.FileSelector(path)) and not ours):
        raise OutputError(f"{settings.path} is left alone: it does not hold earlier results ({CONFIG_FILE} is missing)")
