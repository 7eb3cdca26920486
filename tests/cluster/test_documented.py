"""The commands of Airflow's example and of the README on a real cluster, with the packaged code."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cluster.conftest import Cluster
from tests.doc_blocks import commands
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


@pytest.fixture
def installed(package: Package, tmp_path: Path) -> Path:
    """A checkout with the archive for executors, and its environment for the driver."""
    place = install(tmp_path / "opt")
    (place / ".venv").symlink_to(package.unpacked)
    (place / "dist").mkdir()
    (place / "dist/environment.tar.gz").symlink_to(package.archive)
    return place


def submitted(command: str, cluster: Cluster, folder: Path) -> str:
    """What a command line with spark-submit prints, typed in a folder."""
    settings = folder.with_name("spark-conf")
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in QUIET.items()))
    environment = spark_environment(SPARK_CONF_DIR=str(settings))
    environment["PATH"] = os.pathsep.join([str(SPARK_HOME / "bin"), environment["PATH"]])
    words = ["bash", "-c", command.replace("spark://HOST:7077", cluster.url)]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
    return done.stdout


@pytest.mark.drill
def test_the_airflow_task(cluster: Cluster, installed: Path, tmp_path: Path) -> None:
    """A night, from another folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    submitted(bash_command().replace(PLACE, str(installed)).replace("{{ ds }}", "2026-01-31"), cluster, elsewhere)
    made = json.loads((installed / "work/debtags/nightly/run.json").read_text(encoding="utf-8"))["made"]
    assert made["engine"]["name"] == "arrays" and list(cluster.logs.glob("worker*/app-*"))
    night = the_night(installed)
    assert (night["run_id"], night["exit_code"]) == ("2026-01-31", 0)
    assert not list(elsewhere.iterdir())


@pytest.mark.drill
def test_the_readme(cluster: Cluster, installed: Path, tmp_path: Path) -> None:
    """Its command in a checkout, on fewer texts, and the last line that it shows."""
    (command,) = [one.text for one in commands(ROOT / "README.md") if one.words[0] == "spark-submit"]
    printed = submitted(command.replace("/shared", str(tmp_path)), cluster, installed)
    (shown,) = re.findall(r"^The report's page is .*", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert printed.splitlines()[-1] == shown.replace("/shared", str(tmp_path))
    assert "all labels, 150 texts, best by ndcg@10" in printed
