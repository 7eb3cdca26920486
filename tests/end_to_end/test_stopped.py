"""Ctrl-C and SIGTERM: one line, an exit code of its own, the lease given back, and the same command goes on."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

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
