"""Retriever `bm25`: the labels of the training texts that share the most telling words with a text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.retrievers.base import built_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config


@built_in(
    "bm25",
    indexes="the fold's training texts (sparse.mode: labels: one document per label)",
    scores="the maximum (or sum) of BM25(text, t) over the most similar training texts t that carry the label",
    citation="Robertson et al., Okapi at TREC-3, 1994",
    when="Always: it needs no training and finds words that an encoder has never seen.",
    section="sparse",
)
def bm25(spark: SparkSession, config: Config) -> str:
    """BM25 over training texts."""
    from jobs import retrieve_sparse

    return retrieve_sparse.run(spark, config)
