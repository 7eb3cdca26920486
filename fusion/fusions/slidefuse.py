"""SlideFuse: how often labels near that place were relevant."""

from __future__ import annotations

import numpy as np

from fusion.grid.trained import Evidence, trained
from fusion.types import Floats


@trained(
    "slidefuse",
    formula="sum(mean of P(relevant) at the places from i - w to i + w of the list)",
    citation="D. Lillis, F. Toolan, R. Collier, J. Dunnion. Extending probabilistic data fusion using sliding windows. "
    "ECIR 2008.",
    when="As `posfuse`, smoothed over neighbouring ranks.",
    limits={"w": (0, 1000)},
)
def slidefuse(evidence: Evidence, size: int, w: int = 5) -> Floats:
    known = evidence.probabilities[:size]
    before = np.concatenate(([0.0], np.cumsum(np.concatenate([known, np.zeros(size - len(known))]))))
    first = np.maximum(np.arange(size) - w, 0)
    last = np.minimum(np.arange(size) + w, size - 1)
    return (before[last + 1] - before[first]) / (last - first + 1)
