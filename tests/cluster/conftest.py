"""A real cluster for the tests: a master and two workers on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import SPARK_HOME, server, spark_environment


@dataclass(frozen=True)
class Cluster:
    """A running cluster. Executors are children of the workers."""

    url: str
    workers: tuple[int, ...]
    logs: Path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers with one core each."""
    logs = tmp_path_factory.mktemp("cluster")
    environment = spark_environment(SPARK_DAEMON_MEMORY="256m")

    def daemon(name: str, *options: str) -> list[str]:
        return [str(SPARK_HOME / "bin/spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", "0", *options]

    with ExitStack() as running:
        master = running.enter_context(
            server(
                daemon("master.Master", "--host", "127.0.0.1", "--port", "0"),
                r"(?<=Starting Spark master at )spark://\S+",
                logs / "master.log",
                environment,
            )
        )
        size = ("--cores", "1", "--memory", "1g")
        workers = [
            running.enter_context(
                server(
                    daemon("worker.Worker", *size, "--work-dir", str(logs / f"worker{n}"), master.said),
                    "Successfully registered with master",
                    logs / f"worker{n}.log",
                    environment,
                )
            )
            for n in range(2)
        ]
        yield Cluster(master.said, tuple(worker.pid for worker in workers), logs)
