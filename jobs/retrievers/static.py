"""Retriever `static`: a bi-encoder of token vectors and token weights, fine-tuned as a whole in seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.retrievers.base import built_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config

NAME = "static"


@built_in(
    NAME,
    indexes="one vector per label: that of its words, plus one of its own that starts at zero",
    scores="the cosine of the text's and the label's vector, plus a little for the label's frequency",
    citation="Reimers and Gurevych, Sentence-BERT, EMNLP 2019 (StaticEmbedding); NT-Xent: Chen et al., ICML 2020",
    when="As `dense` on a machine without a GPU: it is trained in seconds.",
    section="static",
)
def static(spark: SparkSession, config: Config) -> str:
    """The static bi-encoder."""
    from jobs.retrieval import static as stages

    return stages.run(spark, config, NAME)
