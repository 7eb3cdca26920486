"""Histories of earlier versions, which kept folders of Parquet files, become Delta tables: once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from jobs.monitoring.history_tables import COLUMNS, KEYS, RUNS, WITHOUT_FIGURES, with_keys
from jobs.runtime.log import log
from udfs.storage import local_folder

if TYPE_CHECKING:
    from jobs.monitoring.delta_tables import DeltaTables

OLD_TABLES = ("metrics", "watched", "drift", "label_counts", "query_figures", RUNS)
OLD_ATTEMPT = 0
"""The number of what was written before there were leases."""


def migrate(place: str, storage: DeltaTables) -> None:
    """Take over what an earlier version left in the folder of a history, under the lease of the night that does so.

    One commit to `runs` comes last, so that a migration that was killed begins anew. The old files stay until
    retention removes what no Delta table lists.
    """
    filesystem, root = _located(place)
    nights = list(_partitions(filesystem, f"{root}/{RUNS}"))
    known = storage.read(RUNS)
    if not nights or (known is not None and OLD_ATTEMPT in known["attempt"].to_pylist()):
        return
    complete = {(run_id, dataset) for run_id, dataset, _ in nights}
    # What a killed migration has written must not be there twice.
    storage.forget([], [OLD_ATTEMPT])
    for name in OLD_TABLES[:-1]:
        for run_id, dataset, path in _partitions(filesystem, f"{root}/{name}"):
            if (run_id, dataset) in complete:
                rows = _typed(name, _read(filesystem, path))
                storage.append(name, with_keys(rows, run_id, dataset, OLD_ATTEMPT))
    rows = [_run_row(run_id, dataset, _read(filesystem, path)) for run_id, dataset, path in nights]
    storage.commit(pa.Table.from_pylist(rows, pa.schema([*KEYS.items(), *COLUMNS[RUNS].items()])))
    log(f"the history {place} of an earlier version was taken over: {len({run_id for run_id, _ in complete})} nights")


def _located(place: str) -> tuple[fs.FileSystem, str]:
    local = local_folder(place)
    if local is not None:
        return fs.LocalFileSystem(), str(local.absolute())
    filesystem, inner = fs.FileSystem.from_uri(place)
    return filesystem, inner.rstrip("/")


def _partitions(filesystem: fs.FileSystem, folder: str) -> Iterator[tuple[str, str, str]]:
    """The nights and datasets of a table of an earlier version, with their folders."""
    for of_run in filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        if not of_run.base_name.startswith("run_id="):
            continue
        for of_dataset in filesystem.get_file_info(fs.FileSelector(of_run.path)):
            key, _, dataset = of_dataset.base_name.partition("=")
            if key == "dataset":
                yield of_run.base_name.removeprefix("run_id="), unquote(dataset), of_dataset.path


def _read(filesystem: fs.FileSystem, path: str) -> pa.Table:
    return pq.read_table(path, filesystem=filesystem, partitioning=None)


def _typed(name: str, rows: pa.Table) -> pa.Table:
    """The rows with the columns that the table has now."""
    if name == "query_figures":
        # Judgements had another digest. Without one, texts are compared by their id alone.
        rows = rows.set_column(rows.schema.get_field_index("text_id"), "text_id", rows["text_id"].cast(pa.string()))
        nothing = pa.nulls(len(rows), pa.int64())
        return rows.set_column(rows.schema.get_field_index("judgement"), "judgement", nothing)
    columns = COLUMNS[name]
    if not columns:
        return rows
    return pa.table(
        {
            column: rows[column].cast(kind) if column in rows.column_names else pa.nulls(len(rows), kind)
            for column, kind in columns.items()
        }
    )


def _run_row(run_id: str, dataset: str, rows: pa.Table) -> dict[str, Any]:
    (row,) = rows.to_pylist()
    known = {column: row[column] for column in COLUMNS[RUNS] if column in row}
    figures = row["verdict"] not in WITHOUT_FIGURES
    return {**known, "run_id": run_id, "dataset": dataset, "attempt": OLD_ATTEMPT, "figures": figures}
