"""On Spark, stages say how many tasks are done of the Spark stages that run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.engines.progress import Running, _Claims, _Updates, spark_progress
from jobs.engines.spark import SparkEngine
from jobs.runtime import log as log_module
from jobs.runtime.log import Progress
from jobs.storage.folders import stage_line
from udfs.steps import Batches, Step

PARTS = pa.table({"part": pa.array(range(6), pa.int64())})
CLAIM = re.compile(r"(.*), (Spark stages? .*): (\d+) of (\d+) tasks(?: \((\d+)%\), about \d+ s left|, \d+ s so far)?")


def sleeping(batches: Batches) -> Batches:
    for batch in batches:
        time.sleep(0.6)
        yield batch


SLEEP = Step(sleeping, PARTS.schema)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "EVERY", 0.1)


def claims(lines: str) -> Iterator[tuple[str, str, int, int]]:
    """Who claims what: tasks done, and all."""
    for found in filter(None, map(CLAIM.fullmatch, lines.splitlines())):
        yield found[1], found[2], int(found[3]), int(found[4])


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_tasks_done_and_time_left(spark: SparkSession, capsys: pytest.CaptureFixture[str], adaptive: str) -> None:
    engine = SparkEngine(spark)
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        # As retrievers do: nobody in this process counts the folds that are fitted.
        with stage_line("model", None), Progress("sleep: fit", len(PARTS), "folds"):
            engine.collect(engine.files(PARTS, SLEEP))
    finally:
        spark.conf.unset("spark.sql.adaptive.enabled")
    lines = capsys.readouterr().err
    of_parts = [claim for claim in claims(lines) if claim[3] == len(PARTS)]
    assert {name for name, *_ in of_parts} == {"sleep: fit"}
    assert re.search(r"sleep: fit, Spark stage \d+: [1-5] of 6 tasks \(\d+%\), about \d+ s left", lines)
    for before, after in pairwise(of_parts):
        assert before[1] != after[1] or before[2] <= after[2]
    assert "of 6 folds" not in lines.partition("Spark stage")[2]


def test_the_first_share_is_said_soon(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "EVERY", 30.0)
    monkeypatch.setattr(log_module, "SOON", 1.0)
    engine = SparkEngine(spark)
    with stage_line("sleep", None):
        engine.collect(engine.files(PARTS, Step(lambda batches: sleeping(sleeping(batches)), PARTS.schema)))
    assert len(list(claims(capsys.readouterr().err))) == 1


def test_jobs_of_others_are_not_counted(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    engine = SparkEngine(spark)

    def other() -> None:
        spark.sparkContext.setJobGroup("other", "of somebody else")
        spark.range(7, numPartitions=7).mapInArrow(sleeping, "id long").toArrow()

    beside = threading.Timer(0.5, other)
    with stage_line("sleep", None):
        beside.start()
        engine.collect(engine.files(PARTS, SLEEP))
    beside.join()
    assert {total for *_, total in claims(capsys.readouterr().err)} <= {1, 2, len(PARTS)}


def test_a_session_that_does_not_tell_is_at_work(capsys: pytest.CaptureFixture[str]) -> None:
    with stage_line("sleep", None), spark_progress(object()):
        time.sleep(0.3)
    assert capsys.readouterr().err.startswith("sleep: at work for 0 s")


def test_without_an_answer_there_is_no_claim() -> None:
    def gone() -> Running:
        raise ConnectionError

    assert _Claims(gone).tasks() is None


def test_stages_side_by_side_are_one_claim() -> None:
    found: dict[int, tuple[int, int]] = {}
    tasks = _Claims(lambda: Running(found, 0.0)).tasks

    def claim(**stages: tuple[int, int]) -> Any:
        found.clear()
        found.update({int(name[1:]): counts for name, counts in stages.items()})
        now = tasks()
        return now and now[:3]

    assert claim() is None
    assert claim(s3=(1, 4), s4=(0, 6)) == ("Spark stages 3 to 4", 1, 10)
    assert claim(s4=(3, 6)) == ("Spark stages 3 to 4", 7, 10)
    assert claim(s4=(3, 6), s5=(0, 2)) == ("Spark stages 4 to 5", 3, 8)
    assert claim(s5=(1, 2)) == ("Spark stages 4 to 5", 7, 8)
    assert claim() is None
    assert claim(s7=(1, 2)) == ("Spark stage 7", 1, 2)
    assert claim(s7=(2, 2)) is None
    assert claim(s8=(0, 1)) is None


class Sent(NamedTuple):
    """What a server of Spark Connect sends of a stage."""

    stage_id: int
    num_completed_tasks: int
    num_tasks: int
    done: bool = False


def test_what_a_connect_server_sends() -> None:
    updates = _Updates()
    tasks = _Claims(updates.running).tasks
    updates(stages=[Sent(0, 0, 2)], inflight_tasks=2, operation_id="a", done=False)
    assert tasks() is None
    updates(stages=[Sent(0, 2, 2, True), Sent(1, 0, 2), Sent(2, 0, 6)], done=False)
    began = time.monotonic()
    # Stage 1 will be skipped: the server says of it what it says of one that has just begun.
    assert tasks() is None
    updates(stages=[Sent(0, 2, 2, True), Sent(1, 0, 2), Sent(2, 2, 6)], done=False)
    found = tasks()
    assert found is not None and found[:3] == ("Spark stage 2", 2, 6) and found.began < began
    elsewhere = threading.Thread(target=updates, kwargs={"stages": [Sent(9, 1, 9)], "done": False})
    elsewhere.start()
    elsewhere.join()
    assert tasks() == found
    updates(stages=[], done=True)
    assert tasks() is None
    updates(stages=None, more="of a later version")
    assert tasks() is None
