"""P@k: the share of hits among the first k."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "precision",
    formula="hits / k",
    citation="C. J. van Rijsbergen. Information Retrieval. 1979.",
    when="The default next to nDCG: the share of the k suggestions that are right.",
    aliases=["p"],
    ideal=False,
    capped=True,
)
def precision(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=k)
