"""Nights that are killed, and two at once: what is left is whole, and a rerun goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from jobs.nights.history import History
from jobs.nights.tables import TABLES
from jobs.storage.stages import stage_fingerprint
from tests.lists import random_relevant, random_texts, write_tables


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A night on the command line."""
    rng = np.random.default_rng(0)
    settings = write_tables(tmp_path, random_texts(rng, 150), random_relevant(rng, 150), folds=2)
    inputs = {key.split(".")[1]: value for key, value in settings.items()}
    (tmp_path / "sample.yaml").write_text(yaml.safe_dump({"dataset": "sample", "inputs": inputs}))
    chosen = ["grid.cells=[zmuv+combmnz]"]
    options = [word for setting in chosen for word in ("--set", setting)]
    places = ["--datasets", str(tmp_path / "sample.yaml"), "--work", str(tmp_path / "work"), "--master", "local[2]"]
    return [
        sys.executable,
        "-m",
        "jobs.cli",
        "nightly",
        "--run-id",
        "tonight",
        "--log-format",
        "keyvalue",
        *places,
        *options,
    ]


def start(command: list[str]) -> subprocess.Popen[str]:
    """In a process group of its own: the driver, its JVM and its workers."""
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return
    raise AssertionError(f"{words!r} was never said")


def kill(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.drill
def test_a_killed_driver_leaves_nothing_half_done(command: list[str], tmp_path: Path) -> None:
    history = History(str(tmp_path / "work" / "history"))
    # Within a stage: nothing of it can be read.
    process = start(command)
    wait_for(process, "stage=evaluate event=started")
    kill(process)
    assert not (tmp_path / "work" / "sample" / "nightly" / "metrics.parquet").exists()
    assert stage_fingerprint(str(tmp_path / "work" / "sample" / "nightly")) is None
    assert history.runs() == []
    # Between stages: what was finished is kept, but the run is not part of the history.
    process = start(command)
    wait_for(process, "taken over")
    wait_for(process, "stage=evaluate seconds=")
    kill(process)
    assert (tmp_path / "work" / "sample" / "nightly" / "metrics.parquet").exists()
    assert history.runs() == []
    # Two reruns at once: one goes on from there, the other is refused.
    processes = [start(command), start(command)]
    told = {process.returncode: error for process in processes for error in [process.communicate(timeout=600)[1]]}
    assert sorted(told) == [0, 4], told
    assert "stage=evaluate skipped=True" in told[0]
    assert "night tonight (process" in told[4]
    assert "has been running since" in told[4]
    assert [(row["run_id"], row["verdict"]) for row in history.runs()] == [("tonight", "ok")]
    for name in TABLES:
        table = history.read(name)
        if name in ("choices", "predictions"):
            # No cell that is watched here is chosen again, and there are no new texts.
            assert table is None
            continue
        assert table is not None and set(table["run_id"].to_pylist()) == {"tonight"}, name
