"""bpref: how seldom labels judged not relevant stand above relevant ones. Unjudged labels do not matter."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "bpref",
    formula="sum over hits of (1 - min(judged not relevant above, n) / min(judged not relevant, n)), over n",
    citation="C. Buckley, E. M. Voorhees. Retrieval evaluation with incomplete information. SIGIR 2004.",
    when="Judgements that are incomplete: labels nobody judged do not count.",
    cutoff="none",
    nonrelevant=True,
)
def bpref(k: int, texts: JudgedTexts) -> Worth:
    if texts.nonrelevant is None or texts.nonrelevant_above is None:
        # Nothing is judged not relevant, so nothing can stand above a hit.
        return Worth(np.ones(k), over=texts.relevant)
    most = np.maximum(np.minimum(texts.relevant, texts.nonrelevant), 1)
    return Worth(np.empty(0), over=texts.relevant, terms=1 - texts.nonrelevant_above(most))
