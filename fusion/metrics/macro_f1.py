"""Macro F1@k: the mean over labels of each label's F1."""

from __future__ import annotations

from fusion.registry import label_metric
from fusion.types import Array, Ints


@label_metric(
    "macro-f1",
    formula="per label, 2 hits / (texts that have it among their first k + texts that carry it)",
    citation="D. D. Lewis. Evaluating text categorization. Speech and Natural Language 1991.",
    when="Every label counts the same, however rare.",
    aliases=["macro-f"],
)
def macro_f1(hits: Ints, listed: Ints, carried: Ints) -> Array:
    return 2 * hits / (listed + carried)
