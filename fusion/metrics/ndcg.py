"""nDCG@k: discounted gain of the hits over that of an ideal ranking. Discount 1 / log2(1 + rank); the gain is 1, or
follows from the grades where there are any."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "ndcg",
    formula="sum over hits of gain / log2(1 + rank), over the same sum for the best possible ranking",
    citation="K. Järvelin, J. Kekäläinen. Cumulated gain-based evaluation of IR techniques. TOIS 2002.",
    when="The default: hits near the top count more, and grades can be used.",
    gain="grade",
    capped=True,
)
def ndcg(k: int, texts: JudgedTexts) -> Worth:
    discounts = 1 / np.log2(np.arange(2, k + 2))
    return Worth(discounts, over=texts.ideal(discounts))
