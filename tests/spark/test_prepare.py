"""Job `prepare` on Spark: the same tests, and the same tables as in this process for any number of partitions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.datasets import prepare
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.engines.spark import SparkEngine
from jobs.storage.workspace import Workspace
from tests.unit.test_prepare import *  # noqa: F403
from tests.unit.test_prepare import made, random_records, write_texts
from udfs.datasets.dividing import Division, hashed


@pytest.fixture
def engine(spark: SparkSession) -> SparkEngine:
    return SparkEngine(spark, 3)


def test_hashes_are_those_of_spark(spark: SparkSession) -> None:
    values = ["", "text 7", "key ü€", "x" * 100]
    frame = spark.createDataFrame([(value, 7 - 2**40 * n) for n, value in enumerate(values)], "text string, id bigint")
    seed, purpose = F.lit(42).cast("bigint"), F.lit("fold")
    rows = frame.select("text", "id", F.xxhash64(seed, purpose, "text", "id").alias("hash")).collect()
    assert [row["hash"] for row in rows] == [hashed(42, "fold", row["text"], row["id"]) for row in rows]
    # The number of a fold has 4 bytes, as it always had.
    fold = F.lit(3).cast("int")
    share = F.pmod(F.xxhash64(seed, F.lit("validation"), fold, "text"), F.lit(1_000_000))
    drawn = [row["share"] < 500_000 for row in frame.select(share.alias("share")).collect()]
    assert (Division("folds", 4, 42, 0.5, 0.2).roles(values, []) != 0)[:, 3].tolist() == [
        one or two for one, two in zip(drawn, [hashed(42, "fold", value) % 4 == 3 for value in values], strict=True)
    ]


@pytest.mark.parametrize("partitions", [1, 8])
def test_the_same_tables_on_both_engines(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    write_texts(tmp_path, random_records(300))
    settings: dict[str, Any] = {"limit": 250, "group_key": "source"}
    tables: dict[str, dict[str, Any]] = {}
    engines: dict[str, Engine[Any]] = {"here": LocalEngine(), "spark": SparkEngine(spark, partitions)}
    for name, engine in engines.items():
        config = made(tmp_path, **settings).model_copy(update={"dataset": name})
        statistics = prepare.run(engine, config)
        order = {"samples": ["text_id"], "labels": ["label_id"], "folds": ["text_id", "fold"]}
        for table, keys in order.items():
            rows = pq.read_table(f"{Workspace.of(config).prepared}/{table}.parquet")
            tables.setdefault(table, {})[name] = rows.sort_by([(key, "ascending") for key in keys])
        tables.setdefault("statistics", {})[name] = {**statistics, "dataset": ""}
    for of_engine in tables.values():
        assert of_engine["here"] == of_engine["spark"]
