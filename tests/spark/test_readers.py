"""The readers on Spark: the same tests, by as many workers as there are splits."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from jobs.datasets import readers
from jobs.engines.spark import SparkEngine
from tests.unit.test_readers import *  # noqa: F403


@pytest.fixture
def engine(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkEngine:
    # Lines are counted on Spark, too, however few they are.
    monkeypatch.setattr(readers, "COUNTED_HERE", 0)
    return SparkEngine(spark)
