"""Sample-averaged F1@k: of each text the harmonic mean of the P and the recall of the labels listed down to rank k. It
differs from F1@k where a list is shorter than k."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "sample-f1",
    formula="2 hits / (labels listed down to rank k + n)",
    citation="S. Godbole, S. Sarawagi. Discriminative methods for multi-labeled classification. PAKDD 2004.",
    when="As `f1`, where short lists should not count as wrong; scikit-learn's `average='samples'`.",
    aliases=["sample-f"],
)
def sample_f1(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.full(k, 2.0), over=texts.relevant, listed=k)
