"""MRR: the mean reciprocal rank of the first hit; with a cut-off, 0 where that is below it."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "mrr",
    formula="1 / rank of the first hit",
    citation="E. M. Voorhees. The TREC-8 question answering track report. TREC 1999.",
    when="The reader stops at the first right label.",
    aliases=["rr", "recip-rank", "reciprocal-rank"],
    cutoff="optional",
    ideal=False,
)
def mrr(k: int, texts: JudgedTexts) -> Worth:
    return Worth(1 / np.arange(1, k + 1), over=1.0, counts="first")
