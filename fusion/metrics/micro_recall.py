"""Micro recall@k: the share of all relevant labels that are listed down to rank k. Printed is the ratio of sums over
texts; tests over texts compare the ratios of single texts."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "micro-recall",
    formula="hits, over n",
    citation="D. D. Lewis. Evaluating text categorization. Speech and Natural Language 1991.",
    when="Every relevant label counts the same, whatever its text.",
    aliases=["micro-r"],
    pooled=True,
)
def micro_recall(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=texts.relevant)
