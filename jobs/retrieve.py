"""Job `retrieve`: the candidates of every retriever that the configuration names."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from jobs.config import Config
from jobs.retrievers import Retriever, chosen_retrievers
from jobs.runtime.credentials import job
from jobs.runtime.workspace import Workspace


@job
def run(
    spark: SparkSession, config: Config, begin: Callable[[Retriever], object] = lambda entry: None
) -> dict[str, str]:
    """Bring all candidates up to date; the table of each retriever. `begin` is called before each of them."""
    place = Workspace.of(config)
    tables = {}
    for entry in chosen_retrievers(config.retrievers):
        begin(entry)
        entry.run(spark, config)
        tables[entry.name] = place.candidate_lists(entry.name)
    return tables


if __name__ == "__main__":
    from jobs.cli import job_main

    job_main("retrieve")
