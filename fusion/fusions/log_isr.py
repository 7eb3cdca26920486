"""Log-ISR: as ISR, with the logarithm of the number of lists; 0 for a label of one list."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "log-isr",
    reads="ranks",
    formula="ln(m) * sum(1 / r^2)",
    citation="A. Mourão et al. Multimodal medical information retrieval with unsupervised rank fusion. CMIG 2015.",
    when="As `isr`, if labels that only one retriever found should score 0.",
    standard=True,
)
def log_isr(candidates: Candidates) -> Array:
    return np.log(candidates.held) * candidates.inverse_squares


@log_isr.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.log(np.sum(~np.isnan(ranks), axis=0)) * np.nansum(ranks**-2.0, axis=0)
