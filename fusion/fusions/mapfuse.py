"""MAPFuse: inverse ranks, each list's times its mean average precision."""

from __future__ import annotations

import numpy as np

from fusion.grid.trained import Evidence, trained
from fusion.types import Floats


@trained(
    "mapfuse",
    formula="sum(MAP / r), with the MAP of each list's retriever",
    citation="D. Lillis, L. Zhang, F. Toolan, R. W. Collier, D. Leonard, J. Dunnion. Estimating probabilities for "
    "effective data fusion. SIGIR 2010.",
    when="Judged texts to learn from, but few of them: one number per retriever.",
)
def mapfuse(evidence: Evidence, size: int) -> Floats:
    return evidence.mean_average_precision / np.arange(1, size + 1)
