"""R-precision: the share of hits among the first n, where n is the number of relevant labels of the text."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "r-precision",
    formula="hits among the first n / n",
    citation="C. Buckley, E. M. Voorhees. Retrieval system evaluation. In: TREC, MIT Press 2005.",
    when="Texts with very different numbers of labels.",
    aliases=["rprec", "r-prec"],
    cutoff="none",
)
def r_precision(k: int, texts: JudgedTexts) -> Worth:
    return Worth(np.ones(k), over=texts.relevant, depth=texts.relevant)
