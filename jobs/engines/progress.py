"""How far Spark is with what this thread asks of it: the tasks of the Spark stages that run now.

Spark decides while a query runs what is done next, so nobody knows how many Spark stages are still to come. A share is
therefore one of the stages that run, and says which they are. What is done within a task is not known here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from jobs.runtime.log import Tasks, work_elsewhere

GROUP = "spark.jobGroup.id"


class Running(NamedTuple):
    """The Spark stages that run: by id, how many tasks are done, and how many there are."""

    stages: Mapping[int, tuple[int, int]]
    began: float
    """When those that nobody has seen before began, by `time.monotonic`."""


@contextmanager
def spark_progress(spark: Any) -> Iterator[None]:
    """Within the block, stages say how far Spark is, if the session can tell."""
    with ExitStack() as block:
        # It is only about lines in a log: whatever a platform refuses, the work goes on without them.
        with suppress(Exception):
            # Sessions of Spark Connect are of another class, and have no context.
            running = _of_tracker(spark) if isinstance(spark, SparkSession) else _of_updates(spark, block)
            block.enter_context(work_elsewhere(_Claims(running).tasks))
        yield


class _Claims:
    """Makes claims of what runs: about stages that run side by side, until another one joins them."""

    def __init__(self, running: Callable[[], Running]) -> None:
        self._running = running
        self._totals: dict[int, int] = {}
        self._began = 0.0

    def tasks(self) -> Tasks | None:
        """The claim of now; none between two stages, in a stage of one task, or where Spark does not answer."""
        try:
            now = self._running()
        except Exception:
            return None
        totals = {stage: total for stage, (_, total) in now.stages.items()}
        if not totals.items() <= self._totals.items():
            # With a stage of the claim before, its tasks count since then.
            self._began = self._began if totals.keys() & self._totals.keys() else now.began
            self._totals = totals
        # A stage of the claim that runs no more is done.
        done = sum(now.stages[stage][0] if stage in now.stages else total for stage, total in self._totals.items())
        every = sum(self._totals.values())
        # One task has no share that is known, and of those that are all done there is nothing to wait for.
        return Tasks(_named(self._totals), done, every, self._began) if done < every and every > 1 else None


def _named(stages: Mapping[int, int]) -> str:
    """The stages by the ids that Spark's own pages have for them."""
    first, last = min(stages), max(stages)
    return f"Spark stage {first}" if first == last else f"Spark stages {first} to {last}"


def _of_tracker(spark: SparkSession) -> Callable[[], Running]:
    """What the tracker of a classic session knows of the jobs that this thread starts from now on."""
    context = spark.sparkContext
    tracker, group = context.statusTracker(), context.getLocalProperty(GROUP)
    ours = dict.fromkeys(tracker.getActiveJobsIds(), False)
    looked = time.monotonic()

    def running() -> Running:
        nonlocal looked
        # What is new began after the last look.
        began, looked = looked, time.monotonic()
        jobs = tracker.getActiveJobsIds()
        if not ours.keys() >= set(jobs):
            grouped = set(tracker.getJobIdsForGroup(group))
            ours.update({job: job in grouped for job in jobs if job not in ours})
        infos = [tracker.getJobInfo(job) for job in jobs if ours[job]]
        stages = {stage for info in infos if info is not None for stage in info.stageIds}
        found = [tracker.getStageInfo(stage) for stage in stages.intersection(tracker.getActiveStageIds())]
        return Running({info.stageId: (info.numCompletedTasks, info.numTasks) for info in found if info}, began)

    return running


def _of_updates(spark: Any, block: ExitStack) -> Callable[[], Running]:
    """What a server of Spark Connect says of the queries of this thread, until the block ends."""
    updates = _Updates()
    spark.registerProgressHandler(updates)
    block.callback(_forget, spark, updates)
    return updates.running


def _forget(spark: Any, updates: _Updates) -> None:
    with suppress(Exception):
        spark.removeProgressHandler(updates)


class _Updates:
    """Keeps the last update that a server has sent. Spark's client calls it, and must not hear of its errors."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._known: tuple[Sequence[int], Sequence[int]] | None = None
        self._updated = time.monotonic()
        self._running = Running({}, self._updated)

    def __call__(self, stages: Any = (), done: bool = False, **more: Any) -> None:
        if threading.get_ident() == self._thread:
            with suppress(Exception):
                self._update([] if done else list(stages or ()))

    def _update(self, stages: Sequence[Any]) -> None:
        known = [stage.stage_id for stage in stages], [stage.stage_id for stage in stages if stage.done]
        # What runs now was not there at the update before it was first listed, or waited for what was done since.
        began = self._running.began if known == self._known else self._updated
        self._known, self._updated = known, time.monotonic()
        # A stage that will be skipped, since its results are there, also stays at no task.
        begun = [stage for stage in stages if stage.num_completed_tasks and not stage.done]
        counts = {stage.stage_id: (stage.num_completed_tasks, stage.num_tasks) for stage in begun}
        self._running = Running(counts, began)

    def running(self) -> Running:
        return self._running
