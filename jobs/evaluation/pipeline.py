"""Job `run`: from a dataset's files to the figures of the whole grid and their report.

What is done already is not done again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from fusion.errors import check_all
from jobs.datasets import prepare
from jobs.datasets.prepared import dataset_engine
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.evaluation import evaluate
from jobs.evaluation.result import Result
from jobs.inputs.stages import with_output, with_tables
from jobs.retrievers import driver
from jobs.runtime.log import log
from jobs.settings.base import OutputSettings
from jobs.settings.config import Config
from jobs.storage.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PREPARE, EVALUATE, REPORT = "prepare", "evaluate", "report"
"""The steps other than the retrievers, each of which is a step of its own."""
MEANING = {
    PREPARE: "read the dataset and divide it into folds",
    EVALUATE: "fuse the candidates in every way of the grid and evaluate",
    REPORT: "write the report",
}


def announce(config: Config, step: str) -> None:
    """Say which step of the job begins. A retriever's step has its name."""
    indexes = {entry.name: entry.indexes for entry in config.retrievers.entries()}
    steps = [PREPARE, *indexes, EVALUATE, REPORT]
    about = MEANING.get(step) or f"{step}, which indexes {indexes[step]}"
    log(f"step {steps.index(step) + 1} of {len(steps)}: {about}")


def check(config: Config) -> None:
    """Refuse retrievers that cannot run here, or of which nothing can be fused, before any work is done."""
    check_all(partial(driver.check_fused, config, _brought(config)), partial(driver.check, config))


@job
def run(spark: SparkSession | None, config: Config) -> Result:
    """Prepare, retrieve (and take what `inputs.candidates` brings), evaluate."""
    check(config)
    needed = _needed_session(spark)
    config = with_candidates(dataset_engine(config, needed), config, announce)
    announce(config, EVALUATE)
    return evaluate.run(needed, config)


def _needed_session(spark: SparkSession | None) -> SparkSession | None:
    """The session if it may have a cluster behind it. On one machine `auto` does without it where the data is small:
    in this process no worker has to start."""
    return None if spark is None or str(spark.conf.get("spark.master", "")).startswith("local") else spark


@job
def with_candidates(
    engine: Engine[Any], config: Config, begin: Callable[[Config, str], object] = lambda config, step: None
) -> Config:
    """All stages before the evaluation; the configuration with what they wrote as inputs."""
    begin(config, PREPARE)
    for line in prepare.summary(prepare.run(engine, config), config.prepare.paper).split("\n"):
        log(line)
    lists = driver.run(engine, config, lambda entry: begin(config, entry.name))
    return evaluated(config, {**lists, **_brought(config)})


def _brought(config: Config) -> Mapping[str, str]:
    """The lists that are given, by retriever."""
    return config.inputs.candidates if isinstance(config.inputs.candidates, dict) else {}


def evaluated(config: Config, candidates: Mapping[str, str]) -> Config:
    """The configuration of the last step: the tables that the others wrote, and a place for the results."""
    return with_results(with_tables(config, candidates))


def with_results(config: Config) -> Config:
    """A place for the figures: as set, or in the work folder."""
    return with_output(config, Workspace.of(config).results)


def reported(config: Config) -> Config:
    """The configuration of the report: what was evaluated, shown where its results are."""
    report = config.report.model_copy(update={"results": [with_results(config).output.path]})
    return config.model_copy(update={"report": report, "output": OutputSettings()})
