"""nDCG@k: discounted gain of the hits over the gain of an ideal ranking. Binary gain, discount 1 / log2(1 + rank)."""

import numpy as np

from fusion.registry import metric
from fusion.types import Floats


@metric(
    "ndcg",
    formula="sum over hits of 1 / log2(1 + rank), over the same sum for ranks 1 to min(n, k)",
    citation="K. Jarvelin, J. Kekalainen. Cumulated gain-based evaluation of IR techniques. TOIS 2002.",
)
def ndcg(k: int, relevant: int) -> Floats:
    discounts = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(discounts)[min(relevant, k) - 1] if relevant else np.inf
    return discounts / ideal
