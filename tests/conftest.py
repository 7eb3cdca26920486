"""What all tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from jobs.engines.session import get_session
from jobs.runtime.log import configure_log
from jobs.settings.base import SparkSettings
from jobs.settings.sections import LogSettings
from tests.packaged import Package, packed
from tests.servers import QUICK

# As the command does: tests read its lines.
configure_log(LogSettings())
# For this session's JVM, and for those of programs that tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", QUICK)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One session for all tests. Two shuffle partitions: on tiny data every further one only costs time."""
    session = get_session(SparkSettings(master="local[2]", conf={"spark.sql.shuffle.partitions": 2}))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The wheel in an environment of its own, as an archive and unpacked."""
    return packed(tmp_path_factory.mktemp("package"))
