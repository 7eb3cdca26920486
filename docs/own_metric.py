"""A metric in one file: rank-biased precision.

Use, once it is imported: rbp, or rbp@10. Its place in the package is fusion/metrics/rbp.py.
"""

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "rbp",
    formula="0.2 times the sum over hits of 0.8^(rank - 1)",
    citation="A. Moffat, J. Zobel. Rank-biased precision for measurement of retrieval effectiveness. TOIS 2008.",
    cutoff="optional",
    ideal=False,
)
def rbp(k: int, texts: JudgedTexts) -> Worth:
    return Worth(0.2 * 0.8 ** np.arange(k), over=1.0)
