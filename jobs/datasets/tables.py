"""The tables that `prepare` wrote, as the retrievers read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from jobs.datasets.roles import TEST, TRAIN, VALIDATION
from jobs.inputs.roles import check_roles
from jobs.inputs.spark_tables import read_table, require_columns
from jobs.runtime.stages import input_fingerprint
from jobs.runtime.workspace import check_prepared
from udfs.partitioning import repartitioned


@dataclass(frozen=True)
class DatasetTables:
    """The tables that `prepare` wrote, and what the job must know of them."""

    fingerprint: str
    samples: DataFrame
    labels: DataFrame
    fold_rows: DataFrame
    groups: tuple[str, ...]
    role_sizes: Mapping[str, Mapping[int, int]]
    """How many texts have a role in each fold."""
    listed_roles: tuple[str, ...]
    """The roles of the texts that retrievers rank labels for."""
    partitions: int | None

    @property
    def folds(self) -> list[int]:
        return sorted(self.role_sizes[TRAIN])

    def texts(self, fold: int, role: str) -> DataFrame:
        """The texts that have a role in a fold."""
        chosen = self.fold_rows.where((F.col("fold") == fold) & (F.col("role") == role)).select("text_id")
        return self.samples.join(chosen, "text_id")

    def fold_texts(self, role: str) -> DataFrame:
        """The texts that have a role, with their folds: fold, text_id."""
        return self.fold_rows.where(F.col("role") == role).select(F.col("fold").cast("int"), "text_id")

    def repartitioned(self, rows: DataFrame) -> DataFrame:
        """The rows, by text or by id, in the partitions that the settings say."""
        return repartitioned(rows, "text_id" if "text_id" in rows.columns else "id", self.partitions)


def open_tables(spark: SparkSession, path: str, partitions: int | None, list_validation: bool = True) -> DatasetTables:
    """Open the tables and check what an index relies on. Labels are ranked for test texts and, if `list_validation`,
    for validation texts where there are some."""
    check_prepared(path)
    tables = {name: read_table(spark, f"{path}/{name}.parquet") for name in ("samples", "labels", "folds")}
    require_columns(tables["samples"], f"{path}/samples.parquet", ["text_id", "text", "label_ids"])
    columns = ["label_id", "name", "alt_names", "description", "label_group"]
    require_columns(tables["labels"], f"{path}/labels.parquet", columns)
    require_columns(tables["folds"], f"{path}/folds.parquet", ["fold", "text_id", "role"])

    ids = tables["labels"].agg(F.count("*"), F.countDistinct("label_id"), F.min("label_id"), F.max("label_id"))
    size, distinct, low, high = ids.collect()[0]
    if not size or (distinct, low, high) != (size, 0, size - 1):
        raise InputError(
            f"{path}/labels.parquet: label_id must number the labels from 0; found {size:,} rows with "
            f"{distinct:,} ids from {low} to {high}. Run 'xmtc-fusion prepare' again."
        )
    groups = sorted(str(row[0]) for row in tables["labels"].select("label_group").distinct().collect())
    texts: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    counts = tables["folds"].groupBy("fold", "role").count().collect()
    check_roles({row["role"] for row in counts}, f"{path}/folds.parquet")
    for fold, role, count in counts:
        texts["all"][fold] += count
        texts[role][fold] += count
    for fold in sorted(texts["all"]):
        if not texts[TRAIN][fold]:
            raise InputError(f"{path}/folds.parquet: fold {fold} has no training texts, so there is nothing to index")
    if not texts["all"]:
        raise InputError(f"{path}/folds.parquet is empty")
    return DatasetTables(
        input_fingerprint(path),
        tables["samples"],
        tables["labels"],
        tables["folds"],
        tuple(groups),
        {role: {fold: texts[role][fold] for fold in texts["all"]} for role in (TRAIN, VALIDATION, TEST)},
        (TEST, VALIDATION) if list_validation and any(texts[VALIDATION].values()) else (TEST,),
        partitions,
    )
