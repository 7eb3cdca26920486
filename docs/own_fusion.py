"""A fusion with a parameter in one file: labels by the sum of r^-p over the lists that hold them.

Use, once it is imported: power, or power(p=0.5). Its place in the package is fusion/fusions/power.py.
"""

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.registry import fusion
from fusion.types import Array, Floats


@fusion("power", reads="ranks", formula="sum(r^-p)", citation="A fusion of your own.", limits={"p": (0, 10)})
def power(candidates: Candidates, p: float = 1.0) -> Array:
    return np.nansum(candidates.ranks**-p, axis=0)


@power.reference
def _(x: Floats, ranks: Floats, p: float = 1.0) -> Floats:
    return np.nansum(ranks**-p, axis=0)
