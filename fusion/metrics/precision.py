"""P@k: the share of hits among the first k."""

import numpy as np

from fusion.registry import metric
from fusion.types import Floats


@metric("precision", formula="hits / k", citation="C. J. van Rijsbergen. Information Retrieval. 1979.")
def precision(k: int, relevant: int) -> Floats:
    return np.full(k, 1 / k)
