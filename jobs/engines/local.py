"""The engine of this process: streams of batches, threads or processes, and sorting in memory. No Spark and no JVM."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from threading import Event, Lock
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from fusion.errors import ConfigError
from jobs.engines.engine import Done, Written
from jobs.engines.parquet import ParquetFiles, parquet_files, partition_folder
from jobs.runtime.log import stage_progress
from udfs.columns import Among, Columns, columns_schema, selected
from udfs.steps import Batches, Step, advanced, key_starts, plain_types, while_wanted
from udfs.stores.cache import client_of
from udfs.stores.clients import PYARROW, StoreAccess, configure, current_access

BATCH_ROWS = 1_024
"""Rows that a step gets at a time: enough to make a call cheap, few enough to keep all cores busy."""
ROWS_AT_ONCE = 8_192
"""Rows of a batch within one call of a step that gets more."""
FEWEST_KEYS = 4_096
"""Keys of a share: fewer are not worth another call."""
FILE_ROWS = 1_000_000
"""Rows per Parquet file that is written."""
PATIENCE = 2.0
"""Seconds that a step in Python may run here before processes are started for it, which takes about as long."""


@dataclass(frozen=True)
class LocalRows:
    """A stream of batches that may be run through several times."""

    schema: pa.Schema
    stream: Callable[[], Batches]

    def kept(self) -> LocalRows:
        """The same rows, which are computed once and then held in memory."""
        held: list[pa.Table] = []
        lock = Lock()

        def stream() -> Batches:
            with lock:
                if not held:
                    held.append(pa.Table.from_batches(self.stream(), self.schema))
            return iter(held[0].to_batches())

        return LocalRows(self.schema, stream)


class LocalEngine:
    """Runs steps in this process."""

    name = "local"

    def __init__(self) -> None:
        self._files: dict[str, ParquetFiles] = {}

    @property
    def about(self) -> dict[str, Any]:
        return {"name": self.name}

    @property
    def workers(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def read(self, source: Any, columns: Sequence[str] | None = None, keep: bool = False) -> LocalRows:
        if isinstance(source, pa.Table):
            table = plain_types(source if columns is None else source.select(list(columns)))
            return LocalRows(table.schema, lambda: iter(table.to_batches()))
        if isinstance(source, LocalRows):
            if columns is None:
                return source
            names = list(columns)
            return LocalRows(_fields(source.schema, names), lambda: (batch.select(names) for batch in source.stream()))
        if not isinstance(source, str) or source.startswith("table:"):
            what = source if isinstance(source, str) else f"a {type(source).__name__}"
            raise ConfigError(f"{what} can be read on Spark only: set grid.engine to arrays, windows or auto")
        if source not in self._files:
            self._files[source] = parquet_files(source)
        files = self._files[source]
        names = files.schema.names if columns is None else list(columns)
        rows = LocalRows(pa.schema([files.schema.field(name) for name in names]), lambda: files.batches(names))
        return rows.kept() if keep else rows

    def files(self, splits: pa.Table, step: Step, done: Done | None = None, keep: bool = False) -> LocalRows:
        parts = splits.combine_chunks().to_batches()

        def stream() -> Batches:
            with stage_progress(len(splits), "parts") if done is None else nullcontext(done) as heard:
                yield from self._run(step, _sliced(parts, 1), heard)

        rows = LocalRows(step.schema, stream)
        return rows.kept() if keep else rows

    def select(self, rows: LocalRows, columns: Columns, where: Sequence[Among] = ()) -> LocalRows:
        return LocalRows(columns_schema(columns), lambda: (selected(batch, columns, where) for batch in rows.stream()))

    def count(self, rows: LocalRows, columns: Sequence[str], most: int | None = None) -> pa.Table:
        if not columns:
            number = sum(batch.num_rows for batch in rows.stream())
            return pa.table({"rows": pa.array([number if most is None else min(most, number)], pa.int64())})
        counted = self.collect(self.read(rows, columns)).group_by(list(columns)).aggregate([([], "count_all")])
        return counted.rename_columns([*columns, "rows"])

    def map(self, rows: LocalRows, step: Step, done: Done | None = None) -> LocalRows:
        return LocalRows(step.schema, lambda: self._run(step, _sliced(rows.stream(), BATCH_ROWS), done))

    def group(self, rows: LocalRows, keys: Sequence[str], step: Step, order: Sequence[str] = ()) -> LocalRows:
        shares = self.workers if step.adds_up else None

        def stream() -> Batches:
            table = self.collect(rows)
            with stage_progress(len(table), "rows") as heard:
                yield from self._run(step, _by_key(table, keys, order, self.workers, shares), heard)

        return LocalRows(step.schema, stream)

    def union(self, *rows: LocalRows) -> LocalRows:
        schema = rows[0].schema

        def stream() -> Batches:
            for table in rows:
                for batch in table.stream():
                    yield pa.RecordBatch.from_arrays(
                        [batch[field.name].cast(field.type) for field in schema], schema=schema
                    )

        return LocalRows(schema, stream)

    def schema(self, rows: LocalRows) -> pa.Schema:
        return rows.schema

    def collect(self, rows: LocalRows) -> pa.Table:
        return pa.Table.from_batches(rows.stream(), rows.schema)

    def held(self, rows: LocalRows) -> pa.Table:
        return self.collect(rows)

    def write(
        self, rows: LocalRows, folder: str, by: Sequence[str] = (), order: Sequence[str] = (), aside: str | None = None
    ) -> Written:
        count, values = 0, dict[Any, None]()
        names = [name for name in rows.schema.names if name != aside]
        schema = _fields(rows.schema, names)

        def batches() -> Batches:
            nonlocal count
            for batch in rows.stream():
                count += batch.num_rows
                if aside is not None:
                    values.update(dict.fromkeys(batch[aside].drop_null().unique().to_pylist()))
                yield batch.select(names)

        if not by and not order:
            _write_files(folder, schema, batches())
            return Written(count, list(values))
        table = pa.Table.from_batches(batches(), schema)
        table = table.take(_nulls_first(table, [*by, *order])).combine_chunks()
        edges = [*(key_starts(table, by).tolist() if by else [0]), len(table)]
        for first, last in pairwise(edges):
            folders = [partition_folder(name, str(table[name][first])) for name in by]
            part = table.slice(first, last - first).drop_columns(list(by))
            _write_files("/".join([folder, *folders]), part.schema, iter(part.to_batches()))
        return Written(count, list(values))

    def output_table(self, name: str, replace: bool) -> NoReturn:
        raise ConfigError(f"table:{name} can be written on Spark only: set grid.engine to arrays, windows or auto")

    def _run(self, step: Step, parts: Batches, done: Done | None = None) -> Batches:
        """The rows that a step makes of each part, in the order of the parts."""
        if self.workers > 1 and not step.in_python:
            abandoned = Event()
            # The threads are those of this pool: sums must not depend on how many more a library would start.
            with threadpool_limits(1), ThreadPoolExecutor(self.workers) as pool:
                try:
                    yield from _in_order(pool, _Call(step, abandoned, done), parts, self.workers)
                except BaseException:
                    # The pool waits for its threads, which nothing can stop but themselves.
                    abandoned.set()
                    raise
            return
        begin, call = time.monotonic(), _Call(step)
        for part in parts:
            yield from call(part)
            if done is not None:
                done(part.num_rows)
            if self.workers > 1 and time.monotonic() - begin > PATIENCE:
                break
        following = next(parts, None)
        if following is not None:
            pool = _processes(self.workers)
            try:
                yield from _in_order(pool, call, chain([following], parts), self.workers, done)
            except KeyboardInterrupt:
                pool.shutdown(kill_workers=True)
                raise


@dataclass(frozen=True)
class _Call:
    """A step applied to one part. In a thread, it says how far it is, and ends early if it is abandoned; with nothing
    but the step, it can be sent to another process."""

    step: Step
    abandoned: Event | None = None
    done: Done | None = None

    def __call__(self, part: pa.RecordBatch) -> list[pa.RecordBatch]:
        with while_wanted(self.abandoned):
            return list(self.step.run(_sliced([part], ROWS_AT_ONCE, self.done)))


def _processes(workers: int) -> Any:
    """Processes that stay for the next step. Unlike those of the standard library, they do not run the user's script
    again."""
    from loky import get_reusable_executor

    return get_reusable_executor(workers, timeout=60, initializer=_begin_process, initargs=(current_access(),))


def _begin_process(access: StoreAccess) -> None:
    # A terminal sends Ctrl-C to every process. This one leaves it to the process that waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure(access)


Call = Callable[[pa.RecordBatch], list[pa.RecordBatch]]


def _in_order(
    pool: Executor, call: Call, parts: Iterable[pa.RecordBatch], workers: int, done: Done | None = None
) -> Batches:
    """Results in the order of the parts, with a few parts on the way at any time."""
    waiting: deque[tuple[int, Future[list[pa.RecordBatch]]]] = deque()
    parts = iter(parts)
    try:
        while True:
            for part in islice(parts, 2 * workers + 1 - len(waiting)):
                waiting.append((part.num_rows, pool.submit(call, part)))
            if not waiting:
                return
            rows, future = waiting.popleft()
            yield from future.result()
            if done is not None:
                done(rows)
    finally:
        for _, future in waiting:
            future.cancel()


def _sliced(batches: Iterable[pa.RecordBatch], rows: int, done: Done | None = None) -> Batches:
    """Batches of at most so many rows. Who asks for the next one is done with the last."""
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            advanced()
            part = batch.slice(begin, rows)
            yield part
            if done is not None:
                done(part.num_rows)


def _fields(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(name) for name in names])


def _by_key(
    table: pa.Table, keys: Sequence[str], order: Sequence[str], workers: int, shares: int | None = None
) -> Batches:
    """Parts of a sorted table that end where a key ends: a number of shares, or else parts of bounded size."""
    ordered = table.take(_nulls_first(table, [*keys, *order])).combine_chunks()
    starts = key_starts(ordered, keys)
    # As many parts as keep every worker busy to the end.
    at_once = max(1, min(BATCH_ROWS, -(-len(starts) // (4 * workers))))
    if shares is not None:
        at_once = max(FEWEST_KEYS, -(-len(starts) // shares))
    edges = [*starts[::at_once].tolist(), len(ordered)]
    for first, last in pairwise(edges):
        yield from ordered.slice(first, last - first).to_batches()


def _nulls_first(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """The rows in the order of some columns."""
    if PYARROW < 25:
        by = [(name, "ascending") for name in names]
        return pc.sort_indices(table, by, null_placement="at_start")
    return pc.sort_indices(table, [(name, "ascending", "at_start") for name in names])


def _write_files(folder: str, schema: pa.Schema, batches: Batches) -> None:
    """Parquet files of bounded size; one if there are no rows."""
    client, path = client_of(folder)
    client.create_dir(path)
    number, first = 0, next(batches, None)
    while first is not None or number == 0:
        with client.open_output_stream(f"{path}/part-{number:05}.parquet") as stream:
            first = _write_file(stream, schema, first, batches)
        number += 1


def _write_file(
    stream: Any, schema: pa.Schema, first: pa.RecordBatch | None, batches: Batches
) -> pa.RecordBatch | None:
    """Write one Parquet file; the first batch of the next one, None if there is no more."""
    written, batch = 0, first
    with pq.ParquetWriter(stream, schema, compression="snappy", write_page_checksum=True) as writer:
        while batch is not None and written < FILE_ROWS:
            writer.write_batch(batch)
            written += batch.num_rows
            batch = next(batches, None)
    return batch
