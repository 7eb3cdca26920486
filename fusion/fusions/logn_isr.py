"""LogN-ISR: as Log-ISR, with a small addition that keeps the order of labels of one list."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "logn-isr",
    reads="ranks",
    formula="ln(m + sigma) * sum(1 / r^2)",
    citation="A. Mourão et al. Multimodal medical information retrieval with unsupervised rank fusion. CMIG 2015.",
    when="As `log-isr`, without dropping the labels of a single list.",
    limits={"sigma": (0, 1)},
)
def logn_isr(candidates: Candidates, sigma: float = 0.01) -> Array:
    return np.log(candidates.held + sigma) * candidates.inverse_squares


@logn_isr.reference
def _(x: Floats, ranks: Floats, sigma: float = 0.01) -> Floats:
    return np.log(np.sum(~np.isnan(ranks), axis=0) + sigma) * np.nansum(ranks**-2.0, axis=0)
