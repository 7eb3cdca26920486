"""Coverage@k: the share of labels that are found at least once, of those that test texts carry."""

from __future__ import annotations

from fusion.registry import label_metric
from fusion.types import Array, Ints


@label_metric(
    "coverage",
    formula="1 for a label that is among the first k of a text that carries it",
    citation="T. Jiang et al. LightXML: Transformer with dynamic negative sampling. AAAI 2021.",
    when="To see how much of the label set is ever found.",
)
def coverage(hits: Ints, listed: Ints, carried: Ints) -> Array:
    return hits > 0
