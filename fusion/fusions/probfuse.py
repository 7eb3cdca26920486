"""ProbFuse: how often labels of that segment of the list were relevant; lists are cut into equally long segments."""

from __future__ import annotations

import numpy as np

from fusion.grid.trained import Evidence, trained
from fusion.types import Floats


@trained(
    "probfuse",
    formula="sum(P(relevant in segment k) / k), with each list cut into this number of segments, k from 1",
    citation="D. Lillis, F. Toolan, R. Collier, J. Dunnion. ProbFuse: a probabilistic approach to data fusion. "
    "SIGIR 2006.",
    when="Judged texts to learn from; ranks are pooled into segments, so fewer suffice.",
    limits={"segments": (1, 1000)},
)
def probfuse(evidence: Evidence, size: int, segments: int = 25) -> Floats:
    total = np.zeros(segments)
    for n in np.flatnonzero(evidence.sizes):
        length = -(-n // segments)
        begin = np.arange(0, n, length)
        places = np.diff(np.append(begin, n))
        total[: len(begin)] += np.add.reduceat(evidence.hits_of(int(n)), begin) / places
    segment = np.arange(size) // -(-size // segments)
    return (total / max(evidence.lists, 1))[segment] / (segment + 1)
