"""Micro P@k: the share of right ones among all labels that are listed down to rank k. Printed is the ratio of sums over
texts; tests over texts compare the ratios of single texts."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "micro-precision",
    formula="hits, over labels listed down to rank k",
    citation="D. D. Lewis. Evaluating text categorization. Speech and Natural Language 1991.",
    when="Every assigned label counts the same, whatever its text.",
    aliases=["micro-p"],
    ideal=False,
    pooled=True,
)
def micro_precision(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=0.0, listed=k)
