"""ISR: the inverse squares of a label's ranks, times the number of lists that hold it."""

from __future__ import annotations

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion(
    "isr",
    reads="ranks",
    formula="m * sum(1 / r^2)",
    citation="A. Mourão et al. Multimodal medical information retrieval with unsupervised rank fusion. CMIG 2015.",
    when="Scores that are missing or unusable; the first ranks dominate.",
    standard=True,
)
def isr(candidates: Candidates) -> Array:
    return candidates.held * candidates.inverse_squares


@isr.reference
def _(x: Floats, ranks: Floats) -> Floats:
    return np.sum(~np.isnan(ranks), axis=0) * np.nansum(ranks**-2.0, axis=0)
