"""BayesFuse: the odds that a label is relevant, from its places in the lists."""

from __future__ import annotations

import numpy as np

from fusion.grid.trained import Evidence, trained
from fusion.types import Floats

EDGES = [0, 5, 10, 15, 20, 30, 100, 200, 500, 1000]
UNLIKELY = 0.001


@trained(
    "bayesfuse",
    formula="sum over the lists: ln(P / (1 - P)), with P the share of relevant labels near that place; "
    "ln(0.001 / 0.999) if not present",
    citation="J. A. Aslam, M. Montague. Models for metasearch. SIGIR 2001.",
    when="Judged texts to learn from; the probability of being relevant at each rank.",
    missing=float(np.log(UNLIKELY / (1 - UNLIKELY))),
)
def bayesfuse(evidence: Evidence, size: int) -> Floats:
    share = evidence.mean_hits(EDGES)
    share = np.where(share == 0, UNLIKELY, share)
    odds = np.log(share / np.where(share == 1, UNLIKELY, 1 - share))
    beyond = np.full(max(size - EDGES[-1], 0), np.log(UNLIKELY / (1 - UNLIKELY)))
    return np.concatenate([np.repeat(odds, np.diff(EDGES)), beyond])[:size]
