"""SegFuse: how often labels of that segment were relevant, times the score; segments grow from the top down."""

from __future__ import annotations

import numpy as np

from fusion.grid.trained import Evidence, trained
from fusion.types import Floats

EDGES = [0, *(10 * 2 ** (k - 1) - 5 for k in range(1, 11))]


@trained(
    "segfuse",
    reads="scores",
    formula="sum(P(relevant in that segment) * (x + 1)), with segments of 5, 10, 20, ... places",
    citation="M. Shokouhi. Segmentation of search engine results for effective data-fusion. ECIR 2007.",
    when="As `probfuse`, if scores should count within a segment.",
)
def segfuse(evidence: Evidence, size: int) -> Floats:
    share = np.repeat(evidence.mean_hits(EDGES), np.diff(EDGES))[:size]
    return np.concatenate([share, np.zeros(size - len(share))])
