"""The engine of this process: who hears how far work is, and what becomes of work that nobody waits for."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

from fusion.errors import InputError
from jobs.engines.local import LocalEngine
from jobs.runtime.log import Progress
from jobs.storage.folders import stage_line
from udfs.steps import Step, advanced, listening, one_part

NUMBERS = pa.table({"number": pa.array(range(2), pa.int64())})
LONG = 60.0


@pytest.fixture(autouse=True)
def _two_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.engines.local.LocalEngine.workers", 2)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, InputError])
def test_threads_stop_when_nobody_waits(stop: type[BaseException]) -> None:
    """The first part fails while the second one is at work that would take a minute."""
    ended: list[float] = []

    def run(batches: Any) -> Any:
        for batch in batches:
            if batch["number"][0].as_py() == 0:
                time.sleep(0.2)
                raise stop("enough")
            try:
                for _ in range(6_000):
                    time.sleep(LONG / 6_000)
                    advanced()
            finally:
                ended.append(time.monotonic() - begin)
        yield from ()

    begin, engine = time.monotonic(), LocalEngine()
    with pytest.raises(stop, match="enough"):
        engine.collect(engine.files(NUMBERS, Step(run, NUMBERS.schema)))
    assert 0.2 <= ended[0] < LONG / 2
    # What comes after it is not stopped.
    assert engine.collect(engine.files(NUMBERS, Step(lambda batches: batches, NUMBERS.schema))).equals(NUMBERS)


def test_the_share_of_a_stage_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of parts and of rows, unless the job says it itself; and nothing in the first seconds."""
    said: list[str] = []
    monkeypatch.setattr("jobs.runtime.log.log_progress", lambda line, always=False: said.append(line))
    monkeypatch.setattr("jobs.runtime.log.SOON", 0.0)
    engine, same = LocalEngine(), Step(lambda batches: batches, NUMBERS.schema)
    rows = engine.files(NUMBERS, same)
    with stage_line("read", None):
        with Progress("mine", 10, "texts"):
            engine.collect(rows)
        assert said == []
        engine.collect(engine.group(rows, ["number"], same))
        assert [line[:26] for line in said[::2]] == ["read: 1 of 2 parts (50%), ", "read: 1 of 2 rows (50%), a"]
        said.clear()
        monkeypatch.setattr("jobs.runtime.log.SOON", 60.0)
        engine.collect(engine.group(rows, ["number"], same))
    assert said == []


def test_a_listener_hears_whole_parts() -> None:
    """However much of a part the work speaks of."""
    heard: list[float] = []

    def run(batches: Any) -> Any:
        for batch in batches:
            with one_part():
                for _ in range(batch["number"][0].as_py() * 3):
                    advanced(0.25)
            yield batch

    engine = LocalEngine()
    with listening(heard.append):
        engine.collect(engine.files(NUMBERS, Step(run, NUMBERS.schema)))
    assert sorted(share for share in heard if share) == [0.25, 0.25, 0.25, 0.25, 1.0]
    advanced(1.0)
    assert sum(heard) == len(NUMBERS)
