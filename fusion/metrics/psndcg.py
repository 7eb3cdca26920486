"""psndcg@k: nDCG with hits weighted by inverse propensity. Printed is the ratio of sums over texts; tests over texts
compare the ratios of single texts."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "psndcg",
    formula="sum over hits of 1 / (p_l log2(1 + rank)), over the same sum for the best possible ranking",
    citation="H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation. KDD 2016.",
    when="As `psp`, with ranks counted.",
    aliases=["ps-ndcg", "psn"],
    gain="propensity",
    pooled=True,
)
def psndcg(k: int, texts: JudgedTexts) -> Worth:
    discounts = 1 / np.log2(np.arange(2, k + 2))
    return Worth(discounts, over=texts.ideal(discounts))
