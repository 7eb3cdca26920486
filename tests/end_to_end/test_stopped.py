"""Ctrl-C and SIGTERM: one line, an exit code of its own, the lease given back, and the same command goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import night_command


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    return night_command(tmp_path, 300, "--set", "grid.engine=local")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_night_that_is_stopped(command: list[str], tmp_path: Path, number: signal.Signals, exit_code: int) -> None:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("stage=evaluate event=started" in line for line in process.stderr)
    process.send_signal(number)
    out, said = process.communicate(timeout=300)
    assert process.returncode == exit_code, said
    lines = [line for line in said.splitlines() if not line.startswith("time=")]
    assert lines == ["xmtc-fusion: stopped; what is finished is kept, and the same command goes on from there"]
    assert out == ""
    lease = json.loads((tmp_path / "work/history/lease.json").read_text())
    # Nobody holds a lease that was given back, however long it would have lasted.
    assert lease["beat"] == 0, lease
    work = tmp_path / "work"
    assert not list(work.rglob("metrics*"))
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert list(work.rglob("metrics*"))


SLOW = """
import os, time
from pathlib import Path
from jobs.retrievers.own import retriever

@retriever("slow", indexes="nothing", scores="nothing", citation="none")
def slow(fold):
    # Long enough that the other folds are given to other processes.
    if fold.fold:
        Path("begun").touch()
    time.sleep(600 if fold.fold else 3)
"""
ENDLESS = [f"--set=retrievers.static.{word}" for word in ("model=words", "epochs=5000", "patience=5000")]
DEMO = Path(__file__).parents[2] / "conf" / "datasets" / "debtags.yaml"


@pytest.mark.parametrize("retriever", ["static", "slow.py"])
def test_long_training_that_is_stopped(tmp_path: Path, retriever: str) -> None:
    """In threads and in processes, as a terminal does it: every process gets the signal."""
    (tmp_path / "slow.py").write_text(SLOW)
    options = ["--retrievers", f"bm25,{retriever}", "--work", "work", "--set=prepare.limit=200"]
    options += ENDLESS if retriever == "static" else []
    command = [sys.executable, "-m", "jobs.cli", "run", "--config", str(DEMO), *options]
    environment = {**os.environ, "PYTHONPATH": str(DEMO.parents[2])}
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, start_new_session=True, **pipes) as process:
        assert process.stderr is not None
        last = "words of labels" if retriever == "static" else "step 3 of 5"
        assert any(line.startswith(last) for line in process.stderr)
        while retriever != "static" and not (tmp_path / "begun").exists():
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(1)
        begin = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=300)
        assert time.monotonic() - begin < 60
    assert process.returncode == 130, said
    *before, last = said.splitlines()
    assert last == "xmtc-fusion: stopped; what is finished is kept, and the same command goes on from there"
    assert all(": fit: " in line for line in before), said
    name = retriever.removesuffix(".py")
    assert not list((tmp_path / "work" / "debtags" / name / "model").rglob("*"))
