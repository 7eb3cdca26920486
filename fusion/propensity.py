"""Propensities: how likely a label that applies to a text was also given to it. Rare labels are missed more often.

H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation, tagging, ranking & other missing
label applications. KDD 2016.
"""

from __future__ import annotations

import numpy as np

from fusion.types import Array, Floats

PROPENSITY_MODELS = {"standard": (0.55, 1.5), "wikipedia": (0.5, 0.4), "amazon": (0.6, 2.6)}
"""A and B as the paper gives them: for most datasets, for Wikipedia's and for Amazon's."""


def inverse_propensities(frequencies: Array, texts: int, a: float, b: float) -> Floats:
    """1 / p = 1 + C exp(-A ln(N_l + B)), where C = (ln N - 1) (B + 1)^A, of labels with N_l of N training texts."""
    c = (np.log(texts) - 1) * (b + 1) ** a
    return np.asarray(1 + c * np.exp(-a * np.log(np.asarray(frequencies, np.float64) + b)), np.float64)
