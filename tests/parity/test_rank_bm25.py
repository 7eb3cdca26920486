"""Our BM25 against rank-bm25's BM25Okapi, on the same tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from fusion.retrieval.bags import Bags, counted, numbered
from fusion.retrieval.bm25 import Figures, postings
from fusion.retrieval.neighbours import Postings, nearest
from udfs.retrieval.words import word_digest

WORDS = 120


def corpus(seed: int, documents: int = 80) -> list[list[str]]:
    """Documents of Zipf words."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(8, WORDS + 8)
    chance /= chance.sum()
    return [[f"w{n}" for n in rng.choice(WORDS, rng.integers(1, 25), p=chance)] for _ in range(documents)]


@dataclass(frozen=True)
class Ours:
    """Our index over all documents."""

    figures: Figures
    postings: Postings

    def scores(self, query: list[str]) -> np.ndarray:
        found = nearest(
            self.postings,
            np.zeros(self.figures.documents, np.int8),
            1,
            numbered(bags([query]), self.figures.terms),
            self.figures.documents,
        )
        scores = np.zeros(self.figures.documents)
        scores[found.item] = found.score
        return scores


def bags(documents: list[list[str]]) -> Bags:
    words = [word_digest(word) for document in documents for word in document]
    offset = np.concatenate(([0], np.cumsum([len(document) for document in documents]))).astype(np.int64)
    return counted(np.array(words, np.int64), offset)


def our_index(documents: list[list[str]], k1: float = 1.5, b: float = 0.75) -> Ours:
    # Counted in two parts: the figures are those of all documents.
    figures = Figures.of([bags(documents[:30]), bags(documents[30:])])
    return Ours(figures, postings(bags(documents), figures, k1, b))


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 1.0)])
def test_scores_equal_bm25_okapi(k1: float, b: float) -> None:
    documents = corpus(0)
    assert max(_frequency(documents).values()) < len(documents) / 2
    okapi, index = BM25Okapi(documents, k1=k1, b=b), our_index(documents, k1, b)
    # Repeated words count each time, unknown words not at all.
    for query in [*corpus(1, 20), ["w1", "w1", "w30", "unheard-of"]]:
        expected = okapi.get_scores(query)
        assert expected.max() > 1
        np.testing.assert_allclose(index.scores(query), expected, rtol=2e-6, atol=1e-6)


def test_only_words_of_more_than_half_of_the_documents_differ() -> None:
    """There Robertson's idf is negative. We take 0; rank-bm25 takes a quarter of the mean idf."""
    documents = corpus(4)
    for n, words in enumerate(documents):
        words += ["most"] * (n % 4 != 0) + ["half"] * (n % 2)
    okapi, index = BM25Okapi(documents), our_index(documents)
    frequency = _frequency(documents)
    true_idf = {word: math.log((80 - n + 0.5) / (n + 0.5)) for word, n in frequency.items()}
    assert (frequency["most"], frequency["half"]) == (60, 40)
    assert okapi.idf["most"] == pytest.approx(0.25 * sum(true_idf.values()) / len(true_idf))

    assert not index.scores(["most"]).any()
    assert okapi.get_scores(["most"]).max() > 0.5
    # A word in exactly half is worth nothing in both.
    assert not index.scores(["half"]).any()
    assert not okapi.get_scores(["half"]).any()
    for query in corpus(5, 10):
        without = okapi.get_scores(query)
        np.testing.assert_allclose(index.scores([*query, "most"]), without, rtol=2e-6, atol=1e-6)


def test_empty_documents_count_in_both() -> None:
    documents = [*corpus(6), [], []]
    okapi, index = BM25Okapi(documents), our_index(documents)
    for query in corpus(7, 5):
        np.testing.assert_allclose(index.scores(query), okapi.get_scores(query), rtol=2e-6, atol=1e-6)


def _frequency(documents: list[list[str]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for words in documents:
        for word in set(words):
            counts[word] = counts.get(word, 0) + 1
    return counts
