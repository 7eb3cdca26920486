"""Our BM25 against rank-bm25's BM25Okapi, on the same tokens."""

from __future__ import annotations

import math
from pathlib import Path

import bm25s
import numpy as np
import pyarrow as pa
import pytest
from rank_bm25 import BM25Okapi

from fusion.retrieval.neighbours import nearest
from udfs.retrieval.bm25 import LABEL, TEXT, Formula, Index, build_index

WORDS = 120


def corpus(seed: int, documents: int = 80) -> list[list[str]]:
    """Documents of Zipf words."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(8, WORDS + 8)
    chance /= chance.sum()
    return [[f"w{n}" for n in rng.choice(WORDS, rng.integers(1, 25), p=chance)] for _ in range(documents)]


def our_index(folder: Path, documents: list[list[str]], k1: float = 1.5, b: float = 0.75) -> Index:
    rows = pa.RecordBatch.from_pydict(
        {
            "kind": pa.array([LABEL] + [TEXT] * len(documents), pa.int32()),
            "id": pa.array([0, *range(len(documents))], pa.int64()),
            "text": pa.array([None] + [" ".join(words) or None for words in documents], pa.string()),
            "label_ids": pa.array([None] + [[0]] * len(documents), pa.list_(pa.int32())),
            "label_group": pa.array(["tail"] + [None] * len(documents), pa.string()),
        }
    )
    counts = list(build_index(str(folder), Formula("texts", k1, b), ("tail",))(iter([rows])))
    assert counts[0]["documents"].to_pylist() == [len(documents)]
    return Index.open(folder)


def our_scores(index: Index, query: list[str]) -> np.ndarray:
    token, offset = index.terms([query])
    found = nearest(index.postings, np.zeros(index.documents, np.int8), 1, token, offset, index.documents)
    scores = np.zeros(index.documents)
    scores[found.item] = found.score
    return scores


@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4), (2.0, 1.0)])
def test_scores_equal_bm25_okapi(tmp_path: Path, k1: float, b: float) -> None:
    documents = corpus(0)
    assert max(_frequency(documents).values()) < len(documents) / 2
    okapi, index = BM25Okapi(documents, k1=k1, b=b), our_index(tmp_path, documents, k1, b)
    # Repeated words count each time, unknown words not at all.
    for query in [*corpus(1, 20), ["w1", "w1", "w30", "unheard-of"]]:
        expected = okapi.get_scores(query)
        assert expected.max() > 1
        np.testing.assert_allclose(our_scores(index, query), expected, rtol=2e-6, atol=1e-6)


def test_bm25s_robertson_is_okapi_over_k1_plus_1() -> None:
    documents = corpus(2)
    assert max(_frequency(documents).values()) < len(documents) / 2
    okapi, robertson = BM25Okapi(documents), bm25s.BM25(method="robertson")
    robertson.index(documents, show_progress=False)
    for query in corpus(3, 20):
        known = [word for word in query if word in robertson.vocab_dict]
        np.testing.assert_allclose(robertson.get_scores(known) * 2.5, okapi.get_scores(known), rtol=2e-6, atol=1e-6)


def test_only_words_of_more_than_half_of_the_documents_differ(tmp_path: Path) -> None:
    """There Robertson's idf is negative. We take 0; rank-bm25 takes a quarter of the mean idf."""
    documents = corpus(4)
    for n, words in enumerate(documents):
        words += ["most"] * (n % 4 != 0) + ["half"] * (n % 2)
    okapi, index = BM25Okapi(documents), our_index(tmp_path, documents)
    frequency = _frequency(documents)
    true_idf = {word: math.log((80 - n + 0.5) / (n + 0.5)) for word, n in frequency.items()}
    assert (frequency["most"], frequency["half"]) == (60, 40)
    assert okapi.idf["most"] == pytest.approx(0.25 * sum(true_idf.values()) / len(true_idf))

    assert not our_scores(index, ["most"]).any()
    assert okapi.get_scores(["most"]).max() > 0.5
    # A word in exactly half is worth nothing in both.
    assert not our_scores(index, ["half"]).any()
    assert not okapi.get_scores(["half"]).any()
    for query in corpus(5, 10):
        without = okapi.get_scores(query)
        np.testing.assert_allclose(our_scores(index, [*query, "most"]), without, rtol=2e-6, atol=1e-6)


def test_empty_documents_count_in_both(tmp_path: Path) -> None:
    documents = [*corpus(6), [], []]
    okapi, index = BM25Okapi(documents), our_index(tmp_path, documents)
    for query in corpus(7, 5):
        np.testing.assert_allclose(our_scores(index, query), okapi.get_scores(query), rtol=2e-6, atol=1e-6)


def test_the_index_is_mapped_not_read(tmp_path: Path) -> None:
    index = our_index(tmp_path, corpus(8))
    for array in (index.postings.document, index.postings.worth, index.carried.label, index.group):
        assert isinstance(array.base, np.memmap)


def _frequency(documents: list[list[str]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for words in documents:
        for word in set(words):
            counts[word] = counts.get(word, 0) + 1
    return counts
