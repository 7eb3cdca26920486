"""Retriever `bm25-labels`: BM25 over one document per label, which also finds labels that no training text carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.retrievers.base import built_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config

NAME = "bm25-labels"


@built_in(
    NAME,
    indexes="one document per label: its name, alternative names, description and training texts",
    scores="BM25(text, the label's document)",
    citation="Robertson et al., Okapi at TREC-3, 1994",
    when="Labels with names or descriptions that occur in texts; labels without training texts.",
    section="sparse",
)
def bm25_labels(spark: SparkSession, config: Config) -> str:
    """BM25 over label documents."""
    from jobs import retrieve_sparse

    settings = config.sparse.model_copy(update={"mode": "labels"})
    return retrieve_sparse.run(spark, config.model_copy(update={"sparse": settings}), NAME)
