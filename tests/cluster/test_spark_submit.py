"""Jobs by spark-submit on a real standalone cluster, with the packaged code: the same bytes as in local mode."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.data import write_data
from jobs.evaluation import evaluate
from jobs.settings.config import load_config
from tests import steps
from tests.cluster.conftest import Cluster
from tests.packaged import Package
from tests.servers import QUICK, SPARK_HOME, spark_environment

TEXTS, PARTITIONS = 24_000, 32
"""Enough for many seconds of evaluation, in many tasks: an executor is to die in their midst."""


@dataclass
class Submission:
    """How the tests submit: where, what is shipped, and where executors keep compiled code."""

    cluster: Cluster
    package: Package
    kernels: Path

    @contextmanager
    def application(self, *arguments: str | Path, **conf: Any) -> Iterator[subprocess.Popen[bytes]]:
        """A submitted application; by the end of the block it has come to a good end."""
        settings = {
            "spark.archives": f"{self.package.archive}#environment",
            "spark.driver.extraJavaOptions": QUICK,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK,
            "spark.executor.memory": "512m",
            "spark.executorEnv.NUMBA_CACHE_DIR": self.kernels,
            "spark.pyspark.driver.python": self.package.unpacked / "bin/python",
            "spark.pyspark.python": "./environment/bin/python",
            "spark.sql.shuffle.partitions": 2,
            "spark.ui.enabled": "false",
            **conf,
        }
        options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        command = [SPARK_HOME / "bin/spark-submit", "--master", self.cluster.url, *options, *arguments]
        log = self.kernels.with_name("driver.log")
        with log.open("w") as output:
            environment, folder = spark_environment(), self.kernels.parent
            job = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield job
            assert job.wait(600) == 0, log.read_text()[-5000:]
        finally:
            job.kill()

    def compiled(self) -> dict[str, int]:
        """The files of compiled code, with the times they were written."""
        return {path.name: path.stat().st_mtime_ns for path in self.kernels.rglob("*.code")}


@pytest.fixture(scope="module")
def submission(cluster: Cluster, package: Package, tmp_path_factory: pytest.TempPathFactory) -> Submission:
    return Submission(cluster, package, tmp_path_factory.mktemp("submit") / "kernels")


@pytest.fixture(scope="module")
def walked(submission: Submission, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From the shipped texts to a report, on the cluster."""
    folder = tmp_path_factory.mktemp("walked")
    with submission.application(steps.__file__, *steps.steps(folder)):
        pass
    return folder


@pytest.mark.drill
def test_the_whole_way_equals_local_mode(
    walked: Path, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    steps.assert_same(walked, steps.local_results(spark, tmp_path_factory.getbasetemp()))


@pytest.mark.drill
def test_a_killed_executor_changes_nothing(
    walked: Path, submission: Submission, spark: SparkSession, tmp_path: Path
) -> None:
    """One of two executors dies among the tasks that evaluate; what it had done is done again. This is the second
    application on the cluster, and it compiles nothing again."""
    tables = write_data(tmp_path / "tables", TEXTS)
    compiled = submission.compiled()
    assert compiled

    options = [f"--set={key}={json.dumps(value)}" for key, value in tables.items()]
    job = [submission.package.code / "jobs/cli.py", "evaluate", *options, f"--set=spark.partitions={PARTITIONS}"]
    port = free_port()
    observed = {
        "spark.ui.enabled": "true",
        "spark.ui.port": port,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": tmp_path,
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    with submission.application(*job, f"--output={tmp_path / 'disturbed'}", **observed) as process:
        while not (evaluating(port) and (found := executors(submission.cluster, port))):
            assert process.poll() is None, "the evaluation was over before it was seen"
            time.sleep(0.02)
        os.kill(found[0], signal.SIGKILL)
    (log,) = tmp_path.glob("app-*")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert any(event.get("Task End Reason", {}).get("Reason") == "ExecutorLostFailure" for event in events)

    config = load_config(settings={**tables, "output.path": str(tmp_path / "undisturbed")})
    evaluate.run(spark, config)
    steps.assert_same_files(tmp_path / "disturbed", tmp_path / "undisturbed")
    assert compiled.items() <= submission.compiled().items()


def evaluating(port: int) -> bool:
    """Whether the stage that runs the kernel is under way: some tasks are done, and some have not begun."""
    try:
        (application,) = _get(port, "applications")
        stages = _get(port, f"applications/{application['id']}/stages?status=active")
    except (OSError, ValueError):
        return False
    return any(stage["numTasks"] == PARTITIONS and 1 <= stage["numCompleteTasks"] < PARTITIONS - 4 for stage in stages)


def executors(cluster: Cluster, port: int) -> list[int]:
    """The process ids of the application's executors: children of the workers. Those of an earlier one may linger."""
    (application,) = _get(port, "applications")
    command = ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line.split(maxsplit=2) for line in listed if application["id"] in line]
    return [int(pid) for pid, parent, _ in found if int(parent) in cluster.workers]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _get(port: int, what: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/{what}", timeout=10) as answer:
        return json.load(answer)
