"""Job `retrieve`: the candidates of every retriever that the configuration names."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from jobs.engines.credentials import job
from jobs.retrievers import bm25, dense, dense_texts, learned, static
from jobs.settings.config import Config
from jobs.settings.retrievers import Retriever
from jobs.storage.workspace import Workspace

Work = Callable[[SparkSession, Config], str]
"""Brings the candidates of every fold's test and validation texts up to date, and returns the folder they are in."""
BUILT_IN: dict[str, Work] = {
    "bm25": bm25.run,
    "bm25-labels": bm25.run_labels,
    "dense": dense.run,
    "dense-texts": dense_texts.run,
    "linear": learned.run_linear,
    "static": lambda spark, config: static.run(spark, config, "static"),
    "static-texts": lambda spark, config: static.run(spark, config, "static-texts"),
}


@job
def run(
    spark: SparkSession, config: Config, begin: Callable[[Retriever], object] = lambda entry: None
) -> dict[str, str]:
    """Bring all candidates up to date; the table of each retriever. `begin` is called before each of them."""
    place = Workspace.of(config)
    tables = {}
    for entry in config.retrievers.entries():
        begin(entry)
        bring_up_to_date(spark, config, entry)
        tables[entry.name] = place.candidate_lists(entry.name)
    return tables


def bring_up_to_date(spark: SparkSession, config: Config, entry: Retriever) -> str:
    """One retriever; the folder of its candidates."""
    if entry.learn is None:
        return BUILT_IN[entry.name](spark, config)
    return learned.run_own(spark, config, entry.name, entry.learn)
