"""MAP: the mean over texts of average precision, P at the rank of every hit, divided by all relevant labels."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "map",
    formula="sum over hits of (hits down to its rank / rank), over n",
    citation="C. Buckley, E. M. Voorhees. Retrieval evaluation with incomplete information. SIGIR 2004.",
    when="One figure for the whole ranking where all relevant labels matter.",
    aliases=["ap", "map-cut", "average-precision"],
    cutoff="optional",
)
def average_precision(k: int, texts: JudgedTexts) -> Worth:
    return Worth(1 / np.arange(1, k + 1), over=texts.relevant, counts="running")
