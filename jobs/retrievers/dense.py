"""Retriever `dense`: the labels nearest to a text in the space of a sentence-transformers model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.retrievers.base import built_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config


@built_in(
    "dense",
    indexes="one vector per label: its name and the mean of its training texts",
    scores="the cosine of the text's and the label's vector",
    citation="Reimers and Gurevych, Sentence-BERT, EMNLP 2019; trained with NT-Xent, Chen et al., ICML 2020",
    when="Beside `bm25`: it finds synonyms, and labels without training texts by their names.",
    section="dense",
)
def dense(spark: SparkSession, config: Config) -> str:
    """The bi-encoder."""
    from jobs import retrieve_dense

    return retrieve_dense.run(spark, config)
