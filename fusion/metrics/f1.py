"""F1@k: the harmonic mean of P@k and recall@k."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "f1",
    formula="2 hits / (k + n)",
    citation="C. J. van Rijsbergen. Information Retrieval. 1979.",
    when="A fixed number of labels shown, precision and recall of equal worth.",
    aliases=["f"],
)
def f1(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.full(k, 2.0), over=k + texts.relevant)
