"""PosFuse: how often a label at that place was relevant."""

from __future__ import annotations

import numpy as np

from fusion.grid.trained import Evidence, trained
from fusion.types import Floats


@trained(
    "posfuse",
    formula="sum(P(relevant at that place))",
    citation="D. Lillis, L. Zhang, F. Toolan, R. W. Collier, D. Leonard, J. Dunnion. Estimating probabilities for "
    "effective data fusion. SIGIR 2010.",
    when="Many judged texts: one probability per retriever and rank.",
)
def posfuse(evidence: Evidence, size: int) -> Floats:
    known = evidence.probabilities[:size]
    return np.concatenate([known, np.zeros(size - len(known))])
