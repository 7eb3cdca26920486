"""TF-IDF: a term's weight in a text is (1 + ln(count)) times ln((1 + N) / (1 + n)) + 1 for a term in n of N training
texts; vectors have length 1."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusion.retrieval.bags import Bags, numbered
from fusion.types import Floats, Ints


class TfIdf(NamedTuple):
    """The terms that count, ascending, and their inverse document frequencies."""

    terms: Ints
    idf: Floats

    @classmethod
    def of(cls, bags: Bags, least: int, most: int | None = None) -> TfIdf:
        """From training texts: terms in at least so many of them; of too many terms, the most frequent ones."""
        texts = len(bags.offset) - 1
        terms, frequency = np.unique(bags.token, return_counts=True)
        kept = np.flatnonzero(frequency >= min(least, texts))
        if most is not None and len(kept) > most:
            kept = np.sort(kept[np.argsort(-frequency[kept], kind="stable")[:most]])
        return cls(terms[kept], np.log((1 + texts) / (1 + frequency[kept])) + 1)

    def vectors(self, bags: Bags) -> Bags:
        """The vectors of texts; tokens are the numbers of terms."""
        counts = numbered(bags, self.terms)
        weights = (1 + np.log(counts.times.astype(np.float64))) * self.idf[counts.token]
        texts = len(counts.offset) - 1
        text = np.repeat(np.arange(texts), np.diff(counts.offset))
        # Added up text by text, so that the sum does not depend on the texts before it.
        squares = np.bincount(text, weights**2, texts)
        return counts._replace(times=(weights / np.sqrt(squares)[text]).astype(np.float32))
