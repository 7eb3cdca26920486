"""Micro F1@k: the harmonic mean of micro P@k and micro recall@k. Printed is the ratio of sums over texts; tests over
texts compare the ratios of single texts."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "micro-f1",
    formula="2 hits, over labels listed down to rank k + n",
    citation="D. D. Lewis. Evaluating text categorization. Speech and Natural Language 1991.",
    when="One figure for assigned labels, in which frequent labels weigh most; the usual one for EURLEX57K.",
    aliases=["micro-f"],
    pooled=True,
)
def micro_f1(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.full(k, 2.0), over=texts.relevant, listed=k)
