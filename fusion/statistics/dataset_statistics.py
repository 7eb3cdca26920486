"""A dataset's row of the paper's table: how many texts and labels, and how the labels are spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fusion.label_groups import HEAD
from fusion.types import Array


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
