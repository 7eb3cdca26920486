"""Job `run`: from a dataset's files to the figures of the whole grid and their report.

What is done already is not done again.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from jobs import evaluate, prepare, retrieve_dense, retrieve_sparse
from jobs.config import Config
from jobs.results.result import Result
from jobs.runtime.credentials import job
from jobs.runtime.log import log
from jobs.runtime.workspace import Workspace
from jobs.settings import OutputSettings
from udfs.bm25 import RETRIEVER as SPARSE
from udfs.vectors import RETRIEVER as DENSE

STEPS = {
    "prepare": "read the dataset and divide it into folds",
    "sparse": "BM25: index the training texts of each fold, rank labels for its test texts",
    "dense": "bi-encoder: encode texts and labels, train for each fold, rank labels for its test texts",
    "evaluate": "fuse the candidates in every way of the grid and evaluate",
    "report": "write the report",
}


def announce(step: str) -> None:
    """Say which step of the job begins."""
    log(f"step {list(STEPS).index(step) + 1} of {len(STEPS)}: {STEPS[step]}")


@job
def run(spark: SparkSession, config: Config) -> Result:
    """Prepare, retrieve with BM25 and the bi-encoder (and what `inputs.candidates` brings), evaluate."""
    config = with_candidates(spark, config, announce)
    announce("evaluate")
    return evaluate.run(spark, config)


@job
def with_candidates(spark: SparkSession, config: Config, begin: Callable[[str], object] = lambda step: None) -> Config:
    """All stages before the evaluation; the configuration with what they wrote as inputs."""
    begin("prepare")
    log(prepare.summary(prepare.run(spark, config), config.prepare.paper))
    begin("sparse")
    retrieve_sparse.run(spark, config)
    begin("dense")
    retrieve_dense.run(spark, config)
    lists = {name: Workspace.of(config).candidate_lists(name) for name in (SPARSE, DENSE)}
    brought = config.inputs.candidates if isinstance(config.inputs.candidates, dict) else {}
    return evaluated(config, {**lists, **brought})


def evaluated(config: Config, candidates: dict[str, str]) -> Config:
    """The configuration of the last step: the tables that the others wrote, and a place for the results."""
    place = Workspace.of(config)
    inputs = config.inputs.model_copy(
        update={
            "candidates": candidates,
            "judgements": place.samples,
            "label_groups": place.labels,
            "folds": place.folds,
        }
    )
    return with_results(config).model_copy(update={"inputs": inputs})


def with_results(config: Config) -> Config:
    """A place for the figures: as set, or beside the stages, where a later run replaces them."""
    if config.output.path is not None:
        return config
    place = OutputSettings(path=Workspace.of(config).results, mode="overwrite")
    return config.model_copy(update={"output": place})


def reported(config: Config) -> Config:
    """The configuration of the report: what was evaluated, shown where its results are."""
    report = config.report.model_copy(update={"results": [with_results(config).output.path]})
    return config.model_copy(update={"report": report, "output": OutputSettings()})


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("run")
