"""Hit rate@k: the share of texts with a hit among the first k; also called success."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "hit-rate",
    formula="1 if there is a hit among the first k",
    citation="M. Deshpande, G. Karypis. Item-based top-N recommendation algorithms. TOIS 2004.",
    when="One right suggestion is enough.",
    aliases=["hit", "success"],
    ideal=False,
)
def hit_rate(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=1.0, counts="first")
