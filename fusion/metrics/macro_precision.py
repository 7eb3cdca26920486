"""Macro P@k: of each label the share of right ones among the texts that have it in their first k; 0 if none has."""

from __future__ import annotations

import numpy as np

from fusion.registry import label_metric
from fusion.types import Array, Ints


@label_metric(
    "macro-precision",
    formula="per label, hits / texts that have it among their first k",
    citation="D. D. Lewis. Evaluating text categorization. Speech and Natural Language 1991.",
    when="As `macro-f1`, if wrong suggestions are what hurts.",
    aliases=["macro-p"],
)
def macro_precision(hits: Ints, listed: Ints, carried: Ints) -> Array:
    return hits / np.maximum(listed, 1)
