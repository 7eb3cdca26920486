"""psp@k: precision with hits weighted by inverse propensity, so that rare labels, which are often missing from the
judgements, count more. Printed is the ratio of sums over texts; tests over texts compare the ratios of single texts."""

from __future__ import annotations

import numpy as np

from fusion.registry import metric
from fusion.worth import JudgedTexts, Worth


@metric(
    "psp",
    formula="sum over hits of 1 / p_l, over the same sum for the best possible ranking",
    citation="H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation. KDD 2016.",
    when="Rare labels should weigh more than frequent ones; the field's usual metric of the tail.",
    aliases=["ps-precision", "psprecision"],
    gain="propensity",
    pooled=True,
)
def psp(k: int, texts: JudgedTexts) -> Worth:
    ones = np.ones(k)
    return Worth(ones, over=texts.ideal(ones))
