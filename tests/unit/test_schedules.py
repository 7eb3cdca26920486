"""The examples of schedules: what they call exists, and takes what it is given."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from jobs.cli import settings_of
from jobs.help import make_parser
from jobs.settings.config import load_config

ROOT = Path(__file__).parents[2]


def test_the_nightly_configuration() -> None:
    config = load_config(str(ROOT / "conf" / "nightly.yaml"))
    assert all(Path(path).exists() for path in config.nightly.datasets)


def test_crontab() -> None:
    [line] = [line for line in (ROOT / "conf/schedules/crontab").read_text().splitlines() if re.match(r"\d", line)]
    command = line.split("xmtc-fusion nightly ")[1].split(" >>")[0].split()
    arguments = make_parser().parse_args(["nightly", *command])
    assert (ROOT / arguments.config).exists()
    assert len(line.split("cd ")[0].split()) == 5


def test_airflow() -> None:
    """Airflow is no dependency of this project: the file is read, not run."""
    tree = ast.parse((ROOT / "conf/schedules/airflow_dag.py").read_text())
    calls = {
        node.func.id: {word.arg: word.value for word in node.keywords}
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    submitted = calls["SparkSubmitOperator"]
    assert (ROOT / ast.literal_eval(submitted["application"]).removeprefix("/opt/xmtc-fusion/")).exists()
    given = eval(ast.unparse(submitted["application_args"]))
    assert settings_of(make_parser().parse_args(["nightly", *given])) == {
        "work.path": "/opt/xmtc-fusion/work",
        "nightly.run_id": "{{ ds }}",
    }
