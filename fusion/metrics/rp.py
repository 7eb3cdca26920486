"""RP@k: hits among the first k as a share of the most that there can be. With k = 1 it is P@1, and for a text with at
most k relevant labels it is recall@k."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "rp",
    formula="hits / min(k, n)",
    citation="I. Chalkidis et al. Large-scale multi-label text classification on EU legislation. ACL 2019.",
    when="Texts with fewer than k labels, which P@k never credits in full; EURLEX57K is reported with it.",
    aliases=["rp-at-k", "r-precision-at-k"],
    capped=True,
)
def rp(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=np.minimum(texts.relevant, k))
