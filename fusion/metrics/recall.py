"""Recall@k: the share of the relevant labels that are among the first k."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "recall",
    formula="hits / n",
    citation="C. J. van Rijsbergen. Information Retrieval. 1979.",
    when="The lists go to a second stage that cannot add labels.",
    aliases=["r", "sample-recall", "sample-r"],
)
def recall(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=texts.relevant)
