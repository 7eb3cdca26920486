"""Sample-averaged P@k: of each text the share of right ones among the labels that are listed down to rank k; 0 where
none is. It differs from P@k where a list is shorter than k."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "sample-precision",
    formula="hits / labels listed down to rank k",
    citation="S. Godbole, S. Sarawagi. Discriminative methods for multi-labeled classification. PAKDD 2004.",
    when="As `precision`, where short lists should not count as wrong; scikit-learn's `average='samples'`.",
    aliases=["sample-p"],
    ideal=False,
)
def sample_precision(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=0.0, listed=k)
