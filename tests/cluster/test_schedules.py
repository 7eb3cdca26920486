"""Airflow's example on a real cluster, with the packaged code: the command of its task, as Airflow would run it."""

from __future__ import annotations

import ast
import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import Cluster
from tests.installed import PLACE, install, the_night
from tests.packaged import Package
from tests.servers import QUICK, SPARK_HOME, spark_environment
from tests.steps import ROOT

QUIET = {
    "spark.driver.extraJavaOptions": QUICK,
    "spark.driver.host": "127.0.0.1",
    "spark.executor.extraJavaOptions": QUICK,
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": "false",
}
"""What spark-defaults.conf says on this small cluster."""


def bash_command() -> str:
    """Of the only task. Airflow is no dependency of this project: its file is read, and bash runs what it says."""
    tree = ast.parse((ROOT / "conf/schedules/airflow_dag.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "BashOperator"]
    ((command,),) = [[word.value for word in call.keywords if word.arg == "bash_command"] for call in calls]
    return str(ast.literal_eval(command))


@pytest.mark.drill
def test_the_airflow_task(cluster: Cluster, package: Package, tmp_path: Path) -> None:
    """A night from another folder, with the archive for executors and its environment for the driver."""
    installed, elsewhere, spark_conf = (tmp_path / name for name in ("opt", "elsewhere", "conf"))
    install(installed)
    (installed / ".venv").symlink_to(package.unpacked)
    for folder in (installed / "dist", elsewhere, spark_conf):
        folder.mkdir()
    (installed / "dist/environment.tar.gz").symlink_to(package.archive)
    (spark_conf / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in QUIET.items()))
    command = bash_command().replace(PLACE, str(installed)).replace("{{ ds }}", "2026-01-31")
    environment = spark_environment(SPARK_CONF_DIR=str(spark_conf))
    environment["PATH"] = os.pathsep.join([str(SPARK_HOME / "bin"), environment["PATH"]])
    words = ["bash", "-c", command.replace("spark://HOST:7077", cluster.url)]
    done = subprocess.run(words, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
    made = json.loads((installed / "work/debtags/nightly/run.json").read_text(encoding="utf-8"))["made"]
    assert made["engine"]["name"] == "arrays" and list(cluster.logs.glob("worker*/app-*"))
    night = the_night(installed)
    assert (night["run_id"], night["exit_code"]) == ("2026-01-31", 0)
    assert not list(elsewhere.iterdir())
