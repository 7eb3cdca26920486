"""What `doctor` finds without Spark, and what its look at a worker finds where this package is missing."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from pyspark import cloudpickle

from jobs import doctor
from jobs.config import load_config
from udfs.probe import make_probe

FOREIGN = """
import json, sys
sys.path += [{packages!r}]
from pyspark import cloudpickle
(row,) = cloudpickle.loads(sys.stdin.buffer.read())(iter(()))
print(row["about"][0])
"""


def test_without_java_it_says_so_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    lines: list[str] = []
    assert doctor.run(load_config(), lines.append) == 1
    assert lines[-1].startswith("problem  Java") and "no Java was found" in lines[-1]
    assert "-> Install one and set JAVA_HOME, or run: pip install 'xmtc-fusion[java]'" in lines[-1]
    assert not any("Spark " in line[:25] for line in lines)


def test_a_remote_session_needs_no_java_but_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # Other tests have one in this process.
    monkeypatch.setattr("jobs.runtime.session.SparkSession.getActiveSession", lambda: None)
    found = list(doctor.findings(load_config(settings={"spark.remote": "sc://127.0.0.1:1/;token=secret"})))
    assert "Java" not in [finding.subject for finding in found]
    assert (found[-1].state, found[-1].subject) == ("problem", "Spark")
    assert "no Spark Connect server answers at sc://127.0.0.1:1/" in found[-1].text
    assert not any("secret" in str(finding) for finding in found)


def test_workers_without_the_package_can_be_asked() -> None:
    """As on an executor whose Python has pyspark and pyarrow, and nothing of ours."""
    script = FOREIGN.format(packages=sysconfig.get_path("purelib"))
    probe = cloudpickle.dumps(make_probe(("numpy", "no-such-package"))[1])
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, input=probe, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    about = done.stdout.decode()
    assert "No module named 'fusion'" in about and '"no-such-package": null' in about


def test_what_workers_lack_is_a_problem() -> None:
    describe, _ = make_probe(("numpy",))
    here = describe()
    assert "error" not in here and Path(here["place"]).exists()
    same = {**here, "process": 1}
    assert [finding.state for finding in doctor._workers([same], here)] == ["ok", "ok"]
    older = {**same, "packages": {"numpy": "1.26.0"}}
    assert "numpy 1.26.0 (driver: " in str(next(doctor._workers([same, older], here)))
    other = {**same, "code": "another", "place": "elsewhere/fusion/__init__.py"}
    assert str(next(doctor._workers([same, other], here))).startswith("problem")
    bare = {key: value for key, value in same.items() if key not in ("code", "kernel_seconds")}
    lacking = next(doctor._workers([{**bare, "error": "No module named 'fusion'"}], here))
    assert lacking.state == "problem" and "make package" in lacking.remedy
    homeless = {**same, "cache": None}
    assert "NUMBA_CACHE_DIR" in str(list(doctor._workers([homeless], here))[-1])
