"""The driver is killed at every write of a night, of a rerun and of retention: the history stays whole, the last good
night is there, and the next run ends where an undisturbed one does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.nights.tables import TABLES
from tests.nights import Site, good_texts

HERE = Path(__file__).parent
CHANGING = {
    "attempt",
    "started",
    "finished",
    "baseline",
    "commit",
    "settings",
    "seconds",
    "peak_memory",
    "details",
    "bytes",
}
"""Columns that differ from run to run."""


class Driver:
    """A process that makes nights, and is killed where it is told to be."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("gcc") is None or sys.platform != "linux":
            pytest.skip("needs gcc, on Linux")
        library = folder / "kill_at.so"
        source = str(HERE / "kill_at.c")
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-w", "-o", str(library), source, "-ldl"], check=True)
        root = str(HERE.parents[1])
        environment = {**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": root}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "crashing.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "driver.log").open("w"),
            text=True,
            env=environment,
        )

    def night(self, site: Site, run_id: str, fatal: int = 0, **settings: Any) -> tuple[bool, dict[str, Any] | None]:
        assert self.process.stdin is not None and self.process.stdout is not None
        chosen = site.config(run_id, **settings).model_dump(mode="json")
        flat = {f"nightly.{key}": value for key, value in chosen.pop("nightly").items()}
        self.process.stdin.write(json.dumps([fatal, str(site.work), {**chosen, **flat}]) + "\n")
        self.process.stdin.flush()
        killed, answer = json.loads(self.process.stdout.readline())
        return killed, answer


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    driver = Driver(tmp_path_factory.mktemp("driver"))
    yield driver
    driver.process.kill()
    driver.process.wait()


def contents(site: Site) -> dict[str, list[str]]:
    """Every row that counts of the history, without what differs from run to run."""
    history, rows = site.history(), {}
    for name in TABLES:
        table = history.read(name)
        if table is None:
            # Nights without tuned fusions choose nothing, and these have no new texts.
            assert name in ("choices", "predictions")
            continue
        kept = table.drop_columns([column for column in table.column_names if column in CHANGING])
        if name == "checks":
            kept = kept.filter([not quantity.startswith("age") for quantity in kept["quantity"].to_pylist()])
        if name == "run_log":
            # What was finished before the crash is not done again.
            kept = kept.select(["run_id", "dataset"])
            rows[name] = sorted({json.dumps(row) for row in kept.to_pylist()})
        elif name == "runs":
            rows[name] = sorted(json.dumps({**row, "evaluated": None}) for row in kept.to_pylist())
        else:
            rows[name] = sorted(json.dumps(row) for row in kept.to_pylist())
    return rows


def pages(site: Site) -> set[str]:
    """The files of all nights, without what was being written when a driver was killed, which is swept later."""
    files = [path.relative_to(site.work) for path in (site.work / "nightly").rglob("*") if path.is_file()]
    return {file.as_posix() for file in files if not any(part.startswith(".") for part in file.parts)}


SCENARIOS: dict[str, tuple[tuple[str, ...], str, dict[str, Any]]] = {
    "a night": (("good",), "tonight", {}),
    "a rerun": (("good", "tonight"), "tonight", {}),
    "retention": (("old", "good"), "tonight", {"nightly__keep": 1, "nightly__baseline": "good"}),
}


def killed_everywhere(driver: Driver, folder: Path, scenario: str, step: int, first: int = 1) -> int:
    """Kill the driver at each change in turn, or at some; the number of changes."""
    before, run_id, settings = SCENARIOS[scenario]
    site = Site(folder / "site", good_texts(40))
    for earlier in before:
        _, answer = driver.night(site, earlier)
        assert answer is not None and answer["exit_code"] == 0, answer
    site.change("judgements", lambda rows: rows[:-1])
    kept = folder / "kept"
    shutil.copytree(site.work, kept)
    good = contents(site)
    _, answer = driver.night(site, run_id, **settings)
    assert answer is not None and (answer["exit_code"], answer["problems"]) == (0, [])
    undisturbed, all_pages, changes = contents(site), pages(site), answer["changes"]
    for fatal in range(first, changes + 1, step):
        shutil.rmtree(site.work)
        shutil.copytree(kept, site.work)
        killed, answer = driver.night(site, run_id, fatal, **settings)
        where = f"{scenario}: killed at change {fatal} of {changes}"
        assert killed or (answer is not None and answer["changes"] < fatal), where
        left = contents(site)
        if left["runs"] != undisturbed["runs"]:
            # The night does not count, and nothing of what was there is gone.
            assert left["runs"] == good["runs"] or scenario == "retention", where
            assert [row for row in good["metrics"] if '"run_id": "good"' in row and row not in left["metrics"]] == [], (
                where
            )
        else:
            assert set(undisturbed["metrics"]) <= set(left["metrics"]), where
        _, answer = driver.night(site, run_id, **settings)
        assert answer is not None and (answer["exit_code"], answer["problems"]) == (0, []), (where, answer)
        assert contents(site) == undisturbed, where
        assert pages(site) == all_pages, where
    return int(changes)


@pytest.mark.drill
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_some_writes(driver: Driver, tmp_path: Path, scenario: str) -> None:
    assert killed_everywhere(driver, tmp_path, scenario, step=45) > 100


SHARES = 4
"""The drill is divided, so that no part of it takes long."""


@pytest.mark.drill
@pytest.mark.parametrize("share", range(1, SHARES + 1))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_write(driver: Driver, tmp_path: Path, scenario: str, share: int) -> None:
    changes = killed_everywhere(driver, tmp_path, scenario, SHARES, share)
    print(f"{scenario}: killed at every change from {share} on in steps of {SHARES}, of {changes}")
