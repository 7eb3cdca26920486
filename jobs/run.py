"""Job `run`: from a dataset's files to the figures of the whole grid and their report.

What is done already is not done again.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from jobs import evaluate, prepare, retrieve_dense, retrieve_sparse
from jobs.config import Config
from jobs.runtime.log import log
from jobs.settings import OutputSettings


def run(spark: SparkSession, config: Config) -> evaluate.Result:
    """Prepare, retrieve with BM25 and the bi-encoder (and what `inputs.candidates` brings), evaluate."""
    return evaluate.run(spark, with_candidates(spark, config))


def with_candidates(spark: SparkSession, config: Config) -> Config:
    """All stages before the evaluation; the configuration with what they wrote as inputs."""
    statistics = prepare.run(spark, config)
    log("the dataset\n" + prepare.summary(statistics, config.prepare.paper))
    lists = {
        "bm25": f"{retrieve_sparse.run(spark, config)}/{retrieve_sparse.LISTS}",
        "dense": f"{retrieve_dense.run(spark, config)}/{retrieve_dense.LISTS}",
    }
    brought = config.inputs.candidates if isinstance(config.inputs.candidates, dict) else {}
    return evaluated(config, {**lists, **brought})


def evaluated(config: Config, candidates: dict[str, str]) -> Config:
    """The configuration of the last step: the tables that the others wrote, and a place for the results."""
    prepared = prepare.prepared_path(config)
    inputs = config.inputs.model_copy(
        update={
            "candidates": candidates,
            "judgements": f"{prepared}/samples.parquet",
            "label_groups": f"{prepared}/labels.parquet",
            "folds": f"{prepared}/folds.parquet",
        }
    )
    return with_results(config).model_copy(update={"inputs": inputs})


def with_results(config: Config) -> Config:
    """A place for the figures: as set, or beside the stages, where a later run replaces them."""
    if config.output.path is not None:
        return config
    place = OutputSettings(path=f"{config.work.path.rstrip('/')}/{config.dataset}/results", mode="overwrite")
    return config.model_copy(update={"output": place})


def reported(config: Config) -> Config:
    """The configuration of the report: what was evaluated, shown where its results are."""
    report = config.report.model_copy(update={"results": [with_results(config).output.path]})
    return config.model_copy(update={"report": report, "output": OutputSettings()})


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("run")
