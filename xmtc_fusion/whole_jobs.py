"""Every job as a function. A session is made where a job needs one and none is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fusion.errors import ConfigError
from jobs.config import Config
from jobs.runtime.workspace import LISTS
from xmtc_fusion.evaluating import configured
from xmtc_fusion.evaluation import Evaluation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.nightly import Night

Settings = Mapping[str, Any]


def prepare(
    config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None
) -> dict[str, Any]:
    """Write a published dataset as the tables samples, labels and folds. Returns its statistics."""
    from jobs import prepare as job

    resolved = configured(config, settings or {})
    return job.run(_session(resolved, spark), resolved)


def retrieve(
    config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None
) -> dict[str, str]:
    """Candidates of every fold's test and validation texts by all configured retrievers. Returns the table of each."""
    from jobs import retrieve as job

    resolved = configured(config, settings or {})
    return job.run(_session(resolved, spark), resolved)


def retrieve_sparse(config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None) -> str:
    """BM25 candidates of every fold's test and validation texts. Returns the table they are in."""
    from jobs import retrieve_sparse as job

    resolved = configured(config, settings or {})
    return f"{job.run(_session(resolved, spark), resolved)}/{LISTS}"


def train_dense(config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None) -> None:
    """Encode texts and labels, and train the bi-encoder for every fold."""
    from jobs import train_dense as job

    resolved = configured(config, settings or {})
    job.run(_session(resolved, spark), resolved)


def retrieve_dense(config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None) -> str:
    """Dense candidates of every fold's test and validation texts. Returns the table they are in."""
    from jobs import retrieve_dense as job

    resolved = configured(config, settings or {})
    return f"{job.run(_session(resolved, spark), resolved)}/{LISTS}"


def run(config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None) -> Evaluation:
    """From a dataset's files to the figures of the whole grid and their report."""
    from jobs import report as report_job
    from jobs import run as job

    resolved = configured(config, settings or {})
    result = job.run(_session(resolved, spark), resolved)
    report_job.run(job.reported(resolved))
    return Evaluation(result, job.with_results(resolved))


def report(
    results: str | list[str], output: str, settings: Settings | None = None, *, compare: str | None = None
) -> str:
    """Write the report of one or several folders of results. Returns the path of its page.

    `compare`: a folder of earlier results, or of another configuration. The page then shows both side by side, the
    differences tested over the texts that both have.
    """
    from jobs import report as job

    chosen: Settings = {"report.results": results}
    if compare is not None:
        if not isinstance(results, str):
            raise ConfigError(f"only one folder of results can be compared with another, not {len(results)}")
        chosen = {"report.compare": [compare, results]}
    return job.run(configured(None, {**chosen, "output.path": output, **(settings or {})}))


def nightly(config: Config | str, settings: Settings | None = None, spark: SparkSession | None = None) -> Night:
    """Evaluate datasets again and compare them with the baseline. Returns how the night went."""
    from jobs import nightly as job

    return job.run(spark, configured(config, settings or {}))


def doctor(config: Config | str | None = None, settings: Settings | None = None) -> int:
    """Print what is wrong with an installation. Returns the number of problems."""
    from jobs import doctor as job

    return job.run(configured(config, settings or {}))


def _session(config: Config, spark: SparkSession | None) -> SparkSession:
    from jobs.runtime.session import get_session

    return spark or get_session(config.spark)
