"""Folds by hash: the same for any partitioning, and for any other texts in the dataset."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.datasets.roles import TEST, TRAIN, VALIDATION
from jobs.settings.prepare import PrepareSettings

SHARES = 1_000_000
"""How finely a share of the texts can be set."""


def hashed(seed: int, purpose: str, *values: Column) -> Column:
    """A number that looks random, from the seed, what it is for, and some values."""
    return F.xxhash64(F.lit(seed).cast("bigint"), F.lit(purpose), *values)


def tested_in(settings: PrepareSettings) -> Column:
    """The fold in which a text is tested."""
    return F.pmod(hashed(settings.seed, "fold", _unit()), F.lit(settings.folds)).cast("int")


def with_folds(settings: PrepareSettings) -> Callable[[DataFrame], DataFrame]:
    """From texts (text_id, key) to one row per fold and text (fold, text_id, role)."""
    # The validation texts of a fold are a share of its training part, drawn anew for each fold. Texts of one key
    # are drawn together: a validation text that is nearly a training text would stop training too late.
    share = round(settings.validation_share * SHARES)
    held_out = F.pmod(hashed(settings.seed, "validation", F.col("fold"), _unit()), F.lit(SHARES)) < share
    role = F.when(F.col("fold") == F.col("test_fold"), TEST).when(held_out, VALIDATION).otherwise(TRAIN).alias("role")

    def transform(texts: DataFrame) -> DataFrame:
        every = F.explode(F.sequence(F.lit(0), F.lit(settings.folds - 1))).alias("fold")
        return texts.select("text_id", "key", tested_in(settings).alias("test_fold"), every).select(
            "fold", "text_id", role
        )

    return transform


def sampled(settings: PrepareSettings) -> Callable[[DataFrame], DataFrame]:
    """At most `limit` texts: those with the smallest hashes."""

    def transform(texts: DataFrame) -> DataFrame:
        if settings.limit is None:
            return texts
        order = hashed(settings.seed, "limit", F.col("text_id"))
        chosen = texts.select("text_id").orderBy(order, "text_id").limit(settings.limit)
        return texts.join(chosen, "text_id", "left_semi")

    return transform


def _unit() -> Column:
    """What stays together: the texts of a key, or a single text. Prefixed, so that a key is never another's id."""
    return F.coalesce(F.concat(F.lit("key "), "key"), F.concat(F.lit("text "), F.col("text_id").cast("string")))
