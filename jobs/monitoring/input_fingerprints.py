"""What stands for the content of each input, so that a change is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.config import Config
from jobs.inputs.sources import source_format
from jobs.runtime.stages import input_fingerprint, stage_fingerprint
from udfs.storage import local_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def inputs_of(spark: SparkSession | None, config: Config) -> dict[str, Any]:
    """A fingerprint of each input."""
    inputs = config.inputs.model_dump(mode="json")
    candidates = inputs.pop("candidates")
    named = {**inputs, **(candidates if isinstance(candidates, dict) else {"candidates": candidates})}
    return {name: _of_source(spark, config, source) for name, source in named.items()}


def brought_inputs(spark: SparkSession | None, config: Config) -> dict[str, Any]:
    """A fingerprint of each run that a user brings beside a prepared dataset."""
    brought = config.inputs.candidates if isinstance(config.inputs.candidates, dict) else {}
    return {name: _of_source(spark, config, source) for name, source in brought.items()}


def _of_source(spark: SparkSession | None, config: Config, source: Any) -> Any:
    """The fingerprint of the stage that wrote it, of its bytes, or of its rows where only Spark can read it."""
    if not isinstance(source, str) or source in ("auto", "pareto", "none"):
        return source
    kind, path = source_format(source)
    if kind != "table" and local_folder(path) is not None:
        return stage_fingerprint(path.rpartition("/")[0]) or input_fingerprint(path)
    from jobs.inputs.spark_tables import read_table
    from jobs.runtime.session import get_session

    session = spark or get_session(config.spark)
    return rows_fingerprint(session.read.text(path) if kind == "trec" else read_table(session, source))


def rows_fingerprint(rows: DataFrame) -> list[Any]:
    """The number of rows and two sums over them that do not depend on their order.

    Sums, since in an exclusive or equal rows cancel each other out; JSON with its nulls, since Spark's hashes pass over
    nulls and would not see where they are.
    """
    from pyspark.sql import functions as F

    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    hashes = [F.xxhash64(text), F.xxhash64(F.lit(1), text)]
    sums = [F.sum(value.cast("decimal(38,0)")).cast("string").alias(f"sum_{n}") for n, value in enumerate(hashes)]
    digest = rows.agg(F.count("*").alias("rows"), *sums).first()
    return [] if digest is None else list(digest)
