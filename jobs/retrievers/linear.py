"""Retriever `linear`: one linear classifier per label over TF-IDF, the classic of extreme classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobs.retrievers.base import built_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jobs.config import Config

NAME = "linear"


@built_in(
    NAME,
    indexes="one plane per label that training texts carry, over their TF-IDF",
    scores="the signed distance of the text to the label's plane",
    citation="Babbar and Schölkopf, DiSMEC, WSDM 2017",
    when="Labels with dozens of training texts each; no GPU and no encoder.",
    section="linear",
)
def linear(spark: SparkSession, config: Config) -> str:
    """One-vs-rest support vector machines."""
    from fusion.kernel.compiled import code_version
    from jobs.retrieval import learned
    from jobs.runtime.code import import_closure
    from udfs.linear import learn_linear

    code = code_version(*import_closure("udfs.linear"))
    return learned.run(spark, config, NAME, learn_linear, code, config.linear.model_dump(mode="json"))
