"""Macro recall@k: of each label the share found among the texts that carry it."""

from __future__ import annotations

from fusion.registry import label_metric
from fusion.types import Array, Ints


@label_metric(
    "macro-recall",
    formula="per label, hits / texts that carry it",
    citation="D. D. Lewis. Evaluating text categorization. Speech and Natural Language 1991.",
    when="As `macro-f1`, if missed labels are what hurts.",
    aliases=["macro-r"],
)
def macro_recall(hits: Ints, listed: Ints, carried: Ints) -> Array:
    return hits / carried
