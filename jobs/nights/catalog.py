"""The history as tables of a catalog, through Spark.

Appending is all that every kind of table can do, so the lease is a table of its own: the first row with a number has
it. Two nights that begin in the same second may both believe that they have the lease until they look again, which they
do before they commit.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fusion.errors import ConfigError
from jobs.engines.errors import spark_errors
from jobs.nights.tables import COLUMNS, EVENTS, RUNS, FencedError, Holder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


LEASE = "lease"
STAGED = "xmtc_fusion_staged"
LEAST_SECONDS = 1800.0
"""Every renewal of a lease is a row: here they are renewed less often."""


class CatalogTables:
    """The tables of a history whose names begin with a prefix."""

    def __init__(self, prefix: str, spark: SparkSession | None = None) -> None:
        if not all(prefix.split(".")):
            raise ConfigError(f"nightly.history: 'table:{prefix}' should be table:catalog.schema.prefix, or a folder")
        from jobs.engines.session import get_session
        from jobs.settings.base import SparkSettings

        self._spark = spark or get_session(SparkSettings())
        self._prefix = prefix
        self._number = 0

    def append(self, name: str, rows: pa.Table) -> None:
        table = f"{self._prefix}_{name}"
        added = self._spark.createDataFrame(rows)
        if not self._spark.catalog.tableExists(table):
            # Every kind of table can drop a partition; not every one can delete rows.
            (added.write.partitionBy("run_id") if name in COLUMNS else added.write).saveAsTable(table)
            return
        columns = self._spark.table(table).columns
        new = [f"`{field.name}` {field.dataType.simpleString()}" for field in added.schema if field.name not in columns]
        if new:
            self._spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(new)})")
        added.createOrReplaceTempView(STAGED)
        here = set(added.columns)
        values = [f"`{name}`" if name in here else f"NULL AS `{name}`" for name in self._spark.table(table).columns]
        self._spark.sql(f"INSERT INTO {table} SELECT {', '.join(values)} FROM {STAGED}")

    def read(self, name: str, run_ids: list[str] | None = None) -> pa.Table | None:
        rows = self._table(name)
        if rows is None:
            return None
        return (rows if run_ids is None else rows.where(rows["run_id"].isin(run_ids))).toArrow()

    def sql(self, query: str) -> pa.Table:
        for name in (*COLUMNS, *EVENTS):
            rows = self._table(name)
            if rows is not None:
                rows.createOrReplaceTempView(name)
        return self._spark.sql(query).toArrow()

    def commit(self, rows: pa.Table) -> None:
        self._check()
        self.append(RUNS, rows)

    def forget(self, run_ids: list[str], attempts: list[int]) -> None:
        self._check()
        for name in (RUNS, *(name for name in COLUMNS if name != RUNS)):
            if self._table(name) is not None:
                for run_id in run_ids:
                    self._delete(f"{self._prefix}_{name}", run_id)
        # Rows of attempts that were never committed do no harm, and not every kind of table can single them out.

    def take(self, holder: Holder) -> bool:
        last = self.holder()
        if holder.number != (last.number if last else 0) + 1:
            return False
        candidate = replace(holder, seconds=max(holder.seconds, LEAST_SECONDS))
        self._announce(candidate)
        first = min(
            (row for row in self._lease_rows() if row["number"] == candidate.number),
            key=lambda row: (row["time"], row["holder"]),
        )
        if json.loads(first["holder"]) != candidate.as_dict():
            return False
        self._number = candidate.number
        return True

    def holder(self) -> Holder | None:
        rows = self._lease_rows()
        if not rows:
            return None
        number = max(row["number"] for row in rows)
        of_last = [row for row in rows if row["number"] == number]
        first = Holder.of(json.loads(min(of_last, key=lambda row: (row["time"], row["holder"]))["holder"]))
        if first is None:
            return None
        beats = [Holder.of(json.loads(row["holder"])) for row in of_last]
        own = [
            beat.beat
            for beat in beats
            if beat and (beat.host, beat.pid, beat.since) == (first.host, first.pid, first.since)
        ]
        return replace(first, beat=0.0 if 0.0 in own else max(own))

    def beat(self, holder: Holder) -> None:
        self._check()
        last = self.holder()
        if last is None or holder.beat - last.beat > LEAST_SECONDS / 3:
            self._announce(replace(holder, seconds=max(holder.seconds, LEAST_SECONDS)))

    def release(self, holder: Holder) -> None:
        self._announce(replace(holder, beat=0.0))

    def _check(self) -> None:
        last = self.holder()
        if last is not None and last.number > self._number:
            raise FencedError(
                f"{last} has taken the history {self._prefix} over: this night was silent for too long, and its "
                "figures are not kept. Run it again if they are still needed"
            )

    def _announce(self, holder: Holder) -> None:
        row = {"number": [holder.number], "time": [time.time()], "holder": [json.dumps(holder.as_dict())]}
        self.append(LEASE, pa.table(row))

    def _lease_rows(self) -> list[dict[str, Any]]:
        rows = self._table(LEASE)
        return [] if rows is None else rows.toArrow().to_pylist()

    def _table(self, name: str) -> DataFrame | None:
        table = f"{self._prefix}_{name}"
        return self._spark.table(table) if self._spark.catalog.tableExists(table) else None

    def _delete(self, table: str, run_id: str) -> None:
        try:
            self._spark.sql(f"DELETE FROM {table} WHERE run_id = {_literal(run_id)}")
        except spark_errors():
            # Tables of plain files know partitions instead.
            self._spark.sql(f"ALTER TABLE {table} DROP IF EXISTS PARTITION (run_id = {_literal(run_id)})")


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
