"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from jobs.session import get_session
from jobs.settings import SparkSettings


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests. Two shuffle partitions: on tiny data every further one only costs time."""
    session = get_session(
        SparkSettings(
            master="local[2]",
            conf={"spark.sql.shuffle.partitions": 2, "spark.sql.warehouse.dir": "spark-warehouse"},
        )
    )
    yield session
    session.stop()
