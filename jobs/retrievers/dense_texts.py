"""Retriever `dense-texts`: the labels of the training texts nearest to a text in the space of `dense`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.retrievers.base import built_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config


@built_in(
    "dense-texts",
    indexes="the vectors of the fold's training texts by the model of `dense`",
    scores="the maximum (or sum) of the cosine over the nearest training texts that carry the label",
    citation="Zhang and Zhou, ML-KNN: A lazy learning approach to multi-label learning, 2007, for the idea",
    when="Labels whose names say little, with enough training texts.",
    section="dense",
)
def dense_texts(spark: SparkSession, config: Config) -> str:
    """Nearest training texts."""
    from jobs.retrieval import dense_texts as stages

    return stages.run(spark, config)
