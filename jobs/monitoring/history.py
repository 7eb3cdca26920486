"""The history of nightly runs: tables partitioned by run and dataset, as Parquet folders or in a catalog.

A run's partitions appear whole. Its row in `runs` is written last: what has none is not part of the history.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from fusion.errors import ConfigError
from jobs.runtime.folders import folder_size, remove_folder, whole_folder
from jobs.runtime.spark_errors import SPARK_ERRORS
from jobs.settings import OutputSettings

RUNS = "runs"
# The first one is written first and removed last, so that it names every run that has left something.
TABLES = ("metrics", "watched", "drift", "label_counts", "query_figures", RUNS)
PARTITIONS = ["run_id", "dataset"]
STAGED = "xmtc_fusion_staged"


class History:
    """At a folder, or at `table:catalog.schema.prefix`: tables called prefix_runs, prefix_metrics and so on."""

    def __init__(self, spark: SparkSession, place: str) -> None:
        self._spark = spark
        self._place = place.rstrip("/")
        self._prefix = self._place.removeprefix("table:") if place.startswith("table:") else None
        if self._prefix is not None and not all(self._prefix.split(".")):
            raise ConfigError(f"nightly.history: {place!r} should be table:catalog.schema.prefix, or a folder")

    def write(self, name: str, rows: DataFrame, run_id: str, dataset: str) -> None:
        """Replace the rows of a run and dataset, and nothing else."""
        if self._prefix is None:
            path = self._partition(name, run_id, dataset)
            with whole_folder(OutputSettings(path=path, mode="overwrite"), only_ours=False) as folder:
                rows.write.mode("append").parquet(folder.uri)
            return
        table = f"{self._prefix}_{name}"
        partitioned = rows.withColumns({"run_id": F.lit(run_id), "dataset": F.lit(dataset)})
        if not self._spark.catalog.tableExists(table):
            partitioned.write.partitionBy(*PARTITIONS).saveAsTable(table)
            return
        known = self._spark.table(table).columns
        added = [f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema if field.name not in known]
        if added:
            self._spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({', '.join(added)})")
        columns = [f"`{column}`" for column in self._spark.table(table).columns if column not in PARTITIONS]
        rows.createOrReplaceTempView(STAGED)
        partition = f"(run_id = {_literal(run_id)}, dataset = {_literal(dataset)})"
        self._spark.sql(
            f"INSERT OVERWRITE TABLE {table} PARTITION {partition} SELECT {', '.join(columns)} FROM {STAGED}"
        )

    def runs(self) -> list[Row]:
        """Complete runs, the latest last."""
        rows = self._table(RUNS)
        return sorted(rows.collect(), key=lambda row: (row["finished"], row["run_id"])) if rows is not None else []

    def read(self, name: str, run_ids: Iterable[str], dataset: str | None = None) -> DataFrame | None:
        """The rows of some complete runs, None if there are none."""
        rows, wanted = self._table(name), list(run_ids)
        if rows is None or not wanted:
            return None
        chosen = rows.where(F.col("run_id").isin(wanted))
        return chosen if dataset is None else chosen.where(F.col("dataset") == dataset)

    def remove(self, run_id: str, dataset: str) -> None:
        """Forget a run: first its row in `runs`, then the rest."""
        for name in reversed(TABLES):
            if self._prefix is None:
                remove_folder(self._partition(name, run_id, dataset))
            else:
                self._delete(f"{self._prefix}_{name}", run_id, dataset)

    def leftovers(self) -> list[tuple[str, str]]:
        """Runs and datasets of which something was written, but that are not complete."""
        rows = self._table(TABLES[0])
        if rows is None:
            return []
        complete = {(row["run_id"], row["dataset"]) for row in self.runs()}
        return [tuple(row) for row in rows.select(*PARTITIONS).distinct().collect() if tuple(row) not in complete]

    def _delete(self, table: str, run_id: str, dataset: str) -> None:
        try:
            where = f"run_id = {_literal(run_id)} AND dataset = {_literal(dataset)}"
            self._spark.sql(f"DELETE FROM {table} WHERE {where}")
        except SPARK_ERRORS:
            # Tables of plain files know partitions instead.
            partition = f"(run_id = {_literal(run_id)}, dataset = {_literal(dataset)})"
            self._spark.sql(f"ALTER TABLE {table} DROP IF EXISTS PARTITION {partition}")

    def _partition(self, name: str, run_id: str, dataset: str) -> str:
        return f"{self._place}/{name}/run_id={run_id}/dataset={quote(dataset, safe='')}"

    def _table(self, name: str) -> DataFrame | None:
        if self._prefix is not None:
            table = f"{self._prefix}_{name}"
            return self._spark.table(table) if self._spark.catalog.tableExists(table) else None
        path = f"{self._place}/{name}"
        if not folder_size(path):
            return None
        # Names of runs look like numbers or dates to Spark; they are to stay what they are.
        # Runs of earlier versions lack columns that later ones have.
        inferred = self._spark.read.option("mergeSchema", True).parquet(path).schema
        fields = [StructField(f.name, StringType()) if f.name in PARTITIONS else f for f in inferred.fields]
        return self._spark.read.schema(StructType(fields)).parquet(path)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
