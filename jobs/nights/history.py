"""The history of nights: figures, verdicts and decisions.

A night writes its figures under the number of its lease, then one commit to `runs`, and only then do they count. A
rerun is a further attempt; the last one that has figures counts, and the earlier ones stay until retention.
"""

from __future__ import annotations

import getpass
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError
from jobs.engines.credentials import configure_storage
from jobs.nights.tables import COLUMNS, DECISIONS, DELIVERIES, EVENTS, KEYS, RUNS, Storage, rows_of, with_keys
from jobs.settings.config import load_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Row = dict[str, Any]
Attempt = tuple[str, str, int]
"""A night, a dataset and the number of the lease."""
ACCEPT, PIN = "accept", "pin"
"""What a person can decide about a night."""


def attempt_of(row: Row) -> Attempt:
    """The attempt that a row of `runs` is about."""
    return row["run_id"], row["dataset"], row["attempt"]


class History:
    """At a folder or address, or at `table:catalog.schema.prefix`: tables called prefix_runs, prefix_metrics and so on.

    `at` (a time, such as "2026-03-02T06:00:00Z") shows a history of Delta tables as it was then. `settings` such as
    `storage.access_key` say how the store of the history is reached, where the environment does not.
    """

    def __init__(
        self,
        place: str | PathLike[str],
        spark: SparkSession | None = None,
        at: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(place, str | PathLike) or not str(place):
            raise ConfigError(f"the place of a history is a folder, an address or table:NAME, not {place!r}")
        place = str(place)
        if settings:
            configure_storage(load_config(None, settings))
        self.storage: Storage
        self.place = place
        if place.startswith("table:"):
            from jobs.nights.catalog import CatalogTables

            if at is not None:
                raise ConfigError("a history in catalog tables cannot be read as of an earlier time")
            self.storage = CatalogTables(place.removeprefix("table:"), spark)
            return
        from jobs.nights.delta import DeltaTables

        try:
            moment = None if at is None else datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError:
            raise ConfigError(f"at is {at!r}; expected a time, such as 2026-03-02T06:00:00Z") from None
        self.storage = DeltaTables(place, moment)

    def attempts(self) -> list[Row]:
        """Every attempt that was committed, in the order of the nights, then of the attempts."""
        table = self.storage.read(RUNS)
        if table is None:
            return []
        rows = table.to_pylist()
        begun: dict[str, tuple[int, str]] = {}
        for row in rows:
            start = row["attempt"], row["started"]
            begun[row["run_id"]] = min(begun.get(row["run_id"], start), start)
        return sorted(rows, key=lambda row: (begun[row["run_id"]], row["run_id"], row["attempt"], row["dataset"]))

    def runs(self) -> list[Row]:
        """The attempt that counts of each night and dataset, the latest night last."""
        counting: dict[tuple[str, str], Row] = {}
        for row in self.attempts():
            key = row["run_id"], row["dataset"]
            if row["figures"] or key not in counting or not counting[key]["figures"]:
                counting[key] = row
        return list(counting.values())

    def read(self, name: str, run_ids: Iterable[str] | None = None, dataset: str | None = None) -> pa.Table | None:
        """The rows that count of some nights, or of all; None if there are none."""
        nights = None if run_ids is None else set(run_ids)
        attempts = {
            attempt_of(row)
            for row in self.runs()
            if (nights is None or row["run_id"] in nights) and dataset in (None, row["dataset"])
        }
        return self.read_attempts(name, attempts)

    def read_attempts(self, name: str, attempts: set[Attempt]) -> pa.Table | None:
        """The rows of some attempts; None if there are none."""
        if not attempts:
            return None
        table = self.storage.read(name, sorted({run_id for run_id, _, _ in attempts}))
        if table is None:
            return None
        rows = rows_of(table, attempts)
        return rows if len(rows) else None

    def sql(self, query: str) -> pa.Table:
        """The answer to a query over all tables by their names, with every attempt in them."""
        return self.storage.sql(query)

    def append(self, name: str, rows: pa.Table, run_id: str, dataset: str, attempt: int) -> None:
        """Rows of a night, which count once the attempt is committed."""
        if len(rows):
            self.storage.append(name, with_keys(rows, run_id, dataset, attempt))

    def commit(self, rows: Sequence[Row]) -> None:
        """Make an attempt part of the history: its rows in `runs`, one per dataset, all at once."""
        schema = pa.schema([*KEYS.items(), *COLUMNS[RUNS].items()])
        self.storage.commit(pa.Table.from_pylist(list(rows), schema))

    def forget(self, run_ids: Sequence[str], before: int) -> None:
        """Remove nights, and what attempts before a number have written that were never committed."""
        committed = {row["attempt"] for row in self.attempts()}
        # Every attempt writes to this table first, and it is the last one that rows are removed from.
        table = self.storage.read("run_log")
        begun = set() if table is None else set(pc.unique(table["attempt"]).to_pylist())
        self.storage.forget(list(run_ids), sorted(number for number in begun - committed if number < before))

    def decide(self, kind: str, run_id: str, dataset: str | None, attempt: int | None, words: str) -> None:
        """Keep what a person decided about a night, and why."""
        event = {"kind": kind, "run_id": run_id, "dataset": dataset, "attempt": attempt, "words": words}
        self._happened(DECISIONS, {**event, "who": _user()})

    def decisions(self) -> list[Row]:
        """What people decided, the latest last."""
        table = self.storage.read(DECISIONS)
        return [] if table is None else sorted(table.to_pylist(), key=lambda row: row["time"])

    def delivered(self, **event: Any) -> None:
        """Keep what became of an alert."""
        self._happened(DELIVERIES, event)

    def deliveries(self, run_id: str) -> list[Row]:
        table = self.storage.read(DELIVERIES, [run_id])
        return [] if table is None else sorted(table.to_pylist(), key=lambda row: row["time"])

    def _happened(self, name: str, event: Row) -> None:
        moment = datetime.now(timezone.utc).isoformat(timespec="microseconds")
        schema = pa.schema(list(EVENTS[name].items()))
        self.storage.append(name, pa.Table.from_pylist([{"time": moment, **event}], schema))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return "unknown"
