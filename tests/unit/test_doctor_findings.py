"""What `doctor` finds without Spark, and what its look at a worker finds where this package is missing."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import cloudpickle

from jobs.engines import doctor
from jobs.runtime.machine import make_probe, own_code
from jobs.settings.config import load_config

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
    assert lines[-2].startswith("problem  Java") and "no Java was found" in lines[-2]
    assert "-> Install one and set JAVA_HOME, or run: pip install '.[java]'" in lines[-2]
    assert lines[-1] == "Not ready: 1 problem, see above"
    assert not any("Spark " in line[:25] for line in lines)


def test_a_remote_session_needs_no_java_but_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # Other tests have one in this process.
    monkeypatch.setattr("jobs.engines.session.SparkSession.getActiveSession", lambda: None)
    found = list(doctor.findings(load_config(settings={"spark.remote": "sc://127.0.0.1:1/;token=secret"})))
    assert "Java" not in [finding.subject for finding in found]
    assert (found[-1].state, found[-1].subject) == ("problem", "Spark")
    assert "no Spark Connect server answers at sc://127.0.0.1:1/" in found[-1].text
    assert not any("secret" in str(finding) for finding in found)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (None, ["problem  pyspark          missing", "-> pip install pyspark"]),
        (
            "raise OSError('half of it is gone')",
            ["cannot be imported: OSError: half of it is gone", "--force-reinstall"],
        ),
        ("import no_such_module_at_all", ["cannot be imported: ModuleNotFoundError", "--force-reinstall"]),
    ],
)
def test_without_pyspark_it_still_answers(tmp_path: Path, source: str | None, words: list[str]) -> None:
    """In a process of its own, where pyspark is not there, or raises when it is imported."""
    hidden = "class Hidden:\n    def find_spec(self, name, *_):\n        if name.split('.')[0] == 'pyspark':\n"
    hidden += "            raise ModuleNotFoundError(name, name=name)\nimport sys\nsys.meta_path.insert(0, Hidden())\n"
    if source is not None:
        (tmp_path / "pyspark").mkdir()
        (tmp_path / "pyspark" / "__init__.py").write_text(source)
        hidden = f"import sys\nsys.path.insert(0, {str(tmp_path)!r})\n"
    code = hidden + "from jobs.cli import main\nsys.exit(main(['doctor']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 5, done.stderr
    assert all(word in done.stdout for word in words), done.stdout
    assert done.stdout.splitlines()[-1] == "Not ready: 1 problem, see above"
    assert "Traceback" not in done.stderr


def test_other_packages_of_the_same_name(tmp_path: Path) -> None:
    place = Path(doctor.__file__).parents[2]
    assert own_code(place, [str(place)], dict(sys.modules)).state == "ok"
    (tmp_path / "fusion").mkdir()
    (tmp_path / "fusion" / "__init__.py").touch()
    # Behind ours it does no harm.
    assert own_code(place, [str(place), str(tmp_path)], {}).state == "ok"
    shadowed = own_code(place, [str(tmp_path), str(place)], {})
    assert shadowed.state == "problem" and shadowed.remedy
    assert f"`fusion` is taken from {tmp_path / 'fusion'}, which hides" in shadowed.text
    other = SimpleNamespace(__path__=[str(tmp_path / "udfs")])
    assert "`udfs` is taken from" in own_code(place, [str(place)], {"udfs": other}).text


def test_verdicts() -> None:
    assert doctor.verdict(0, 0) == "Ready: jobs can run here"
    assert doctor.verdict(0, 1) == "Ready: jobs can run here (1 warning, see above)"
    assert doctor.verdict(2, 1) == "Not ready: 2 problems, 1 warning, see above"


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
    older = {**same, "packages": {"numpy": "1.0.0"}}
    assert "numpy 1.0.0 (driver: " in str(next(doctor._workers([same, older], here)))
    other = {**same, "code": "another", "place": "elsewhere/fusion/__init__.py"}
    assert str(next(doctor._workers([same, other], here))).startswith("problem")
    bare = {key: value for key, value in same.items() if key not in ("code", "kernel_seconds")}
    lacking = next(doctor._workers([{**bare, "error": "No module named 'fusion'"}], here))
    assert lacking.state == "problem" and "make package" in lacking.remedy
    homeless = {**same, "cache": None}
    assert "NUMBA_CACHE_DIR" in str(list(doctor._workers([homeless], here))[-1])
