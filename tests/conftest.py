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
            conf={
                "spark.sql.shuffle.partitions": 2,
                # Tests run code that is used a few times: compiling it well does not pay.
                "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            },
        )
    )
    yield session
    session.stop()
