"""What is known about labels before any ranking: head and tail, propensities, and the figures of a dataset.

Propensities: how likely a label that applies to a text was also given to it. Rare labels are missed more often.

H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation, tagging, ranking & other missing
label applications. KDD 2016.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fusion.types import Array, Floats

TAIL, HEAD, ALL = "tail", "head", "all"


def head_size(labels: int, share: float = 0.2) -> int:
    """The number of head labels by the Pareto rule: ceil(share * labels), in exact arithmetic."""
    return math.ceil(Fraction(str(share)) * labels)


def pareto_groups(label_ids: Array, frequencies: Array, share: float = 0.2) -> Array:
    """`head` for the most frequent labels (ties by label id ascending), `tail` for the others."""
    order = np.lexsort((label_ids, -np.asarray(frequencies)))
    groups = np.full(len(label_ids), TAIL, dtype=object)
    groups[order[: head_size(len(label_ids), share)]] = HEAD
    return groups


def frequency_bands(label_ids: Array, frequencies: Array, bands: int = 10) -> Array:
    """The band of each label, from 0 for the rarest labels to bands - 1; bands of as good as equal size."""
    order = np.lexsort((-np.asarray(label_ids), frequencies))
    band = np.empty(len(order), np.int8)
    band[order] = np.arange(len(order)) * bands // max(len(order), 1)
    return band


PROPENSITY_MODELS = {"standard": (0.55, 1.5), "wikipedia": (0.5, 0.4), "amazon": (0.6, 2.6)}
"""A and B as the paper gives them: for most datasets, for Wikipedia's and for Amazon's."""


def inverse_propensities(frequencies: Array, texts: int, a: float, b: float) -> Floats:
    """1 / p = 1 + C exp(-A ln(N_l + B)), where C = (ln N - 1) (B + 1)^A, of labels with N_l of N training texts."""
    c = (np.log(texts) - 1) * (b + 1) ** a
    return np.asarray(1 + c * np.exp(-a * np.log(np.asarray(frequencies, np.float64) + b)), np.float64)


@dataclass(frozen=True)
class DatasetStatistics:
    """The size of a dataset, and its pairs (a text and one of its labels) by label group."""

    texts: int
    labels: int
    head_labels: int
    head_pairs: int
    tail_pairs: int
    folds: int

    @classmethod
    def of(cls, texts: int, frequencies: Array, groups: Array, folds: int) -> DatasetStatistics:
        """From the number of texts that carry each label."""
        head = np.asarray(groups) == HEAD
        pairs = np.asarray(frequencies, np.int64)
        return cls(texts, len(pairs), int(head.sum()), int(pairs[head].sum()), int(pairs[~head].sum()), folds)

    @property
    def pairs(self) -> int:
        return self.head_pairs + self.tail_pairs

    @property
    def head_per_text(self) -> float:
        """Head pairs / N."""
        return self.head_pairs / self.texts if self.texts else 0.0

    @property
    def tail_per_text(self) -> float:
        """Tail pairs / N."""
        return self.tail_pairs / self.texts if self.texts else 0.0

    @property
    def texts_per_label(self) -> float:
        """Training texts per label: pairs * (1 - 1/folds) / L, that is 0.8 of the pairs with five folds."""
        return self.pairs * (self.folds - 1) / self.folds / self.labels if self.labels else 0.0
