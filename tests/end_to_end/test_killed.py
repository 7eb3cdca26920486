"""Nights that are killed, and two at once: what is left is whole, and a rerun goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.nights.history import History
from jobs.nights.tables import TABLES
from jobs.storage.stages import stage_fingerprint
from tests.processes import kill, night_command, start, wait_for


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    return night_command(tmp_path, 150, "--master", "local[2]", "--set", "grid.cells=[zmuv+combmnz]")


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
