"""The history as Delta tables in a folder or an object store, through delta-rs: no Spark, no Java.

The lease is part of the log of `runs`: taking it is a commit there, and every later commit of the holder must follow
that one directly. If another night has taken the lease meanwhile, the versions no longer fit, and the commit fails.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from fusion.errors import InputError, OutputError, SetupError
from jobs.nights.tables import COLUMNS, EVENTS, KEYS, PARTITIONED, RUNS, FencedError, Holder
from jobs.storage.folders import output_errors
from udfs.stores.addresses import FILE, S3, in_volume, local_folder, locate
from udfs.stores.clients import current_access, file_system
from udfs.stores.objects import delete_file, exists, put, read_bytes

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable


LEASE, LEASE_FILE = "xmtc-fusion-nightly", "lease.json"
LOG_SETTINGS = {"delta.logRetentionDuration": "interval 400 days", "delta.checkpointInterval": "10"}
"""How far back one can ask what the history held, and how many entries of the log are read one by one at most."""
MANY_FILES = 64
"""Small files of a table that is read whole, from which on they are joined."""
_delta_process: int | None = None
"""The process that first called delta-rs, whose threads do not survive a fork."""


class DeltaTables:
    """The tables of a history at a place, as they are now or as they were at a time."""

    def __init__(self, place: str, at: datetime | None = None) -> None:
        if find_spec("deltalake") is None:
            raise SetupError("the history needs the package deltalake: pip install '.[nightly]'")
        local = local_folder(place)
        self.place = place.rstrip("/") if local is None else str(local.absolute())
        self._local = local is not None
        self._at = at
        self._lease_file = f"{self.place}/{LEASE_FILE}"
        self._options = current_access().delta(locate(place).kind)
        if local is not None and in_volume(local):
            # Volumes cannot link files; the schedule there starts one night at a time.
            self._options = {"allow_unsafe_rename": "true"}
        self._runs: DeltaTable | None = None
        self._number = 0

    def append(self, name: str, rows: pa.Table) -> None:
        from deltalake import write_deltalake

        self._make_folder()
        table = self._open(name)
        write_deltalake(
            self._uri(name) if table is None else table,
            rows,
            mode="append",
            schema_mode="merge",
            partition_by=["run_id"] if name in PARTITIONED else None,
            configuration=LOG_SETTINGS if table is None else None,
            storage_options=self._options,
        )
        table = table or self._open(name)
        assert table is not None
        self._flush(table)
        if name not in PARTITIONED:
            self._join_files(table)

    def read(self, name: str, run_ids: list[str] | None = None) -> pa.Table | None:
        table = self._open(name)
        if table is None:
            return None
        if self._at is not None and not self._went_back(table, self._at):
            return None
        of_runs = None if run_ids is None else pc.field("run_id").isin(run_ids)
        try:
            rows = table.to_pyarrow_dataset(filesystem=self._files(name)).to_table(filter=of_runs)
        except (pa.ArrowException, OSError) as error:
            raise self._unreadable(name, error) from None
        # Files keep the order of columns of their time, and delta-rs puts partitions last.
        return rows.select(
            [*(key for key in KEYS if key in rows.column_names), *(c for c in rows.column_names if c not in KEYS)]
        )

    def _files(self, name: str) -> fs.FileSystem | None:
        """The files of a table, through Arrow's own client. delta-rs would bring one in Python, which Arrow's threads
        may still be calling when Python ends: then a signal ends the process, and its exit code is lost. None for
        stores to which delta-rs may know another way than Arrow."""
        place = locate(self._uri(name))
        return fs.SubTreeFileSystem(place.path, file_system(place)) if place.kind in (FILE, S3) else None

    def _went_back(self, table: DeltaTable, moment: datetime) -> bool:
        """Make a table what it was at a time; False if it was not there yet."""
        created = table.metadata().created_time
        if created is not None and created > moment.timestamp() * 1000:
            return False
        table.load_as_version(moment)
        return True

    def sql(self, query: str) -> pa.Table:
        from deltalake import QueryBuilder
        from deltalake.exceptions import DeltaError

        builder = QueryBuilder()
        for name in (*COLUMNS, *EVENTS):
            table = self._open(name)
            if table is not None:
                builder = builder.register(name, table)
        try:
            return pa.table(builder.execute(query).read_all())
        except DeltaError as error:
            raise InputError(f"the history at {self.place} cannot answer {query!r}: {error}") from None

    def commit(self, rows: pa.Table) -> None:
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        assert self._runs is not None
        _check_not_forked()
        try:
            write_deltalake(self._runs, rows, mode="append", schema_mode="merge", commit_properties=_once())
        except CommitFailedError as error:
            raise self._refusal(error) from None
        self._flush(self._runs)
        self._join_files(self._runs)

    def forget(self, run_ids: list[str], attempts: list[int]) -> None:
        from deltalake import write_deltalake
        from deltalake.exceptions import CommitFailedError

        assert self._runs is not None
        _check_not_forked()
        names = ", ".join(map(_literal, run_ids))
        # Should another night have the lease by now, what it writes under a later number stays.
        of_runs = f"(run_id IN ({names}) AND attempt < {self._number})" if run_ids else ""
        try:
            # Deleting nothing is no commit, and would not notice that the lease is lost.
            write_deltalake(self._runs, _no_rows(self._runs), mode="append", commit_properties=_once())
            if of_runs:
                self._runs.delete(of_runs, commit_properties=_once())
        except CommitFailedError as error:
            raise self._refusal(error) from None
        of_attempts = f"attempt IN ({', '.join(map(str, attempts))})" if attempts else ""
        if not of_runs and not of_attempts:
            return
        for name in COLUMNS:
            table = self._open(name) if name != RUNS else self._runs
            if table is not None:
                if name != RUNS:
                    table.delete(" OR ".join(filter(None, [of_runs, of_attempts])))
                # Readers of an older version have a day to end.
                table.vacuum(retention_hours=24, enforce_retention_duration=False, dry_run=False)

    def take(self, holder: Holder) -> bool:
        from deltalake import Transaction, write_deltalake
        from deltalake.exceptions import CommitFailedError, DeltaError

        runs = self._open(RUNS)
        try:
            runs = runs or self._create_runs()
            if (runs.transaction_version(LEASE) or 0) >= holder.number:
                return False
            metadata = {"lease": json.dumps(holder.as_dict())}
            once = _once(custom_metadata=metadata, app_transactions=[Transaction(LEASE, holder.number)])
            write_deltalake(runs, _no_rows(runs), mode="append", commit_properties=once)
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            if runs is None and self._open(RUNS) is not None:
                # Another night has made the table at the same time.
                return False
            raise OutputError(f"cannot write to the history {self.place}: {error}") from None
        self._flush(runs)
        self._runs, self._number = runs, holder.number
        self.beat(holder)
        return True

    def holder(self) -> Holder | None:
        """The file next to the tables if it is about the last lease. It is not if its holder could not write it, as on
        a full disk, or has not yet, or if the file is damaged; the commit itself then says who took the lease, and
        when."""
        runs = self._open(RUNS)
        number = runs.transaction_version(LEASE) if runs is not None else None
        if runs is None or number is None:
            return None
        stored = self._stored_holder()
        if stored is not None and stored.number >= number:
            return stored
        taken = next((entry for entry in runs.history() if "lease" in entry), None)
        return None if taken is None else Holder.of(json.loads(taken["lease"]))

    def beat(self, holder: Holder) -> None:
        stored = self._stored_holder()
        if stored is not None and stored.number > holder.number:
            raise self._fenced()
        self._store(holder)

    def release(self, holder: Holder) -> None:
        self._runs = None
        stored = self._stored_holder()
        if stored is None or stored.number <= holder.number:
            given_back = replace(holder, beat=0.0)
            try:
                self._store(given_back)
            except OutputError:
                if not self._local:
                    raise
                # On a full disk, the old file makes room for the new one.
                delete_file(self._lease_file)
                self._store(given_back)

    def _stored_holder(self) -> Holder | None:
        """The holder in the lease's file; None where that is missing, cut short or damaged."""
        try:
            with output_errors(self._lease_file):
                return Holder.of(json.loads(read_bytes(self._lease_file) or b"{}"))
        except (ValueError, RecursionError):
            return None

    def _store(self, holder: Holder) -> None:
        with output_errors(self._lease_file):
            put(self._lease_file, json.dumps(holder.as_dict()).encode())

    def _refusal(self, error: Exception) -> OutputError:
        """Why a commit under the lease failed: another one was taken, or the storage has trouble of its own."""
        last = self.holder()
        if last is not None and last.number > self._number:
            return self._fenced()
        return OutputError(f"cannot commit to the history {self.place}: {error}")

    def _fenced(self) -> FencedError:
        other = self.holder()
        return FencedError(
            f"{other or 'another night'} has taken the history {self.place} over: this night was silent for too long, "
            "and its figures are not kept. Run it again if they are still needed"
        )

    def _open(self, name: str) -> DeltaTable | None:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        _check_not_forked()
        try:
            if DeltaTable.is_deltatable(self._uri(name), storage_options=self._options):
                return DeltaTable(self._uri(name), storage_options=self._options)
        except (DeltaError, OSError) as error:
            raise self._unreadable(name, error) from None
        if name == RUNS:
            self._check_new()
        return None

    def _check_new(self) -> None:
        """Every history begins with the table `runs`: where that is not there, nothing else may be."""
        from deltalake import DeltaTable

        left = [
            name
            for name in (*COLUMNS, *EVENTS)
            if DeltaTable.is_deltatable(self._uri(name), storage_options=self._options)
        ]
        left += [LEASE_FILE] if exists(self._lease_file) else []
        # Another night may have begun the history a moment ago.
        if left and not DeltaTable.is_deltatable(self._uri(RUNS), storage_options=self._options):
            raise OutputError(
                f"the history {self.place} has lost its table {RUNS}, which says which nights there were; it still has "
                f"{', '.join(left)}. Restore {self._uri(RUNS)} from a backup, or move what is left away to begin a new "
                "history"
            )

    def _unreadable(self, name: str, error: Exception) -> OutputError:
        # What follows the first line is a trace through the library.
        reason = str(error).partition("\n")[0]
        return OutputError(
            f"cannot read the table {name} of the history {self.place}: {reason}. Restore {self._uri(name)} from a "
            "backup"
        )

    def _create_runs(self) -> DeltaTable:
        from deltalake import DeltaTable

        self._make_folder()
        schema = pa.schema([*KEYS.items(), *COLUMNS[RUNS].items()])
        return DeltaTable.create(
            self._uri(RUNS), schema, mode="error", configuration=LOG_SETTINGS, storage_options=self._options
        )

    def _make_folder(self) -> None:
        if self._local:
            try:
                Path(self.place).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"cannot write to the history {self.place}: {error}") from None

    def _uri(self, name: str) -> str:
        """A table as delta-rs names it, which does not know all schemes of S3."""
        place = locate(self.place)
        return f"s3://{place.path}/{name}" if place.kind == S3 else f"{self.place}/{name}"

    def _join_files(self, table: DeltaTable) -> None:
        """Join small files once there are many. What fails here is tried again another night."""
        from deltalake.exceptions import DeltaError

        if len(table.file_uris()) > MANY_FILES:
            try:
                table.optimize.compact(commit_properties=_once())
            except DeltaError as error:
                if table is self._runs:
                    raise self._refusal(error) from None
            else:
                self._flush(table)

    def _flush(self, table: DeltaTable) -> None:
        """See that what a commit has added is on the disk, so that it survives a power failure."""
        if not self._local:
            return
        folder = Path(self.place, PurePath(table.table_uri.rstrip("/")).name)
        entry = folder / "_delta_log" / f"{table.version():020d}.json"
        added = [json.loads(line).get("add") for line in entry.read_bytes().split(b"\n") if line]
        files = [folder / unquote(action["path"]) for action in added if action]
        for path in [*files, entry, *{file.parent for file in files}, entry.parent]:
            _to_disk(path)


def _check_not_forked() -> None:
    """Refuse what would end the process: delta-rs stops with a panic if it was used before a fork."""
    global _delta_process
    _delta_process = _delta_process or os.getpid()
    if _delta_process != os.getpid():
        raise SetupError(
            f"this process was forked from process {_delta_process}, which had opened a history of nights, and the "
            "Delta library cannot be used on both sides of a fork. Start processes with the method 'spawn', as in "
            "multiprocessing.get_context('spawn'), or open the history only after the fork"
        )


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _once(**properties: Any) -> CommitProperties:
    """A commit that fails if anybody else has committed since the table was read."""
    from deltalake import CommitProperties

    return CommitProperties(max_commit_retries=0, **properties)


def _no_rows(table: DeltaTable) -> pa.Table:
    return pa.schema(table.schema()).empty_table()


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
