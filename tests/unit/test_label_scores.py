"""Nearest documents and label scores: the compiled code against plain Python, ties and empty lists included."""

from __future__ import annotations

import numpy as np
import pytest

from fusion.retrieval.bags import counted
from fusion.retrieval.neighbours import Postings, TextLabels, label_scores, nearest
from fusion.retrieval.ranked import Ranked
from tests import reference

GROUPS = ("head", "tail")


def to_postings(worth: np.ndarray) -> Postings:
    """From a matrix (documents x terms)."""
    term, document = np.nonzero(worth.T)
    start = np.concatenate(([0], np.cumsum(np.bincount(term, minlength=worth.shape[1]))))
    return Postings(start, document.astype(np.int32), worth.T[term, document].astype(np.float32))


def flat(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    values = np.array([value for row in lists for value in row], np.int32)
    return values, np.concatenate(([0], np.cumsum([len(row) for row in lists], dtype=np.int64)))


def entries(ranked: Ranked, number: int) -> list[tuple[int, float]]:
    part = slice(ranked.offset[number], ranked.offset[number + 1])
    return list(zip(ranked.item[part].tolist(), ranked.score[part].tolist(), strict=True))


@pytest.mark.parametrize("n", [1, 3, 7, 64])
@pytest.mark.parametrize("groups", [1, 2])
def test_nearest_equals_a_sort(n: int, groups: int) -> None:
    rng = np.random.default_rng(n)
    # Quarters, so that many scores tie and sums are exact.
    worth = rng.integers(0, 5, (40, 12)) / 4 * (rng.random((40, 12)) < 0.4)
    worth[:, 3] = 0
    group = rng.integers(0, groups, 40).astype(np.int8)
    queries = [rng.integers(0, 12, size).tolist() for size in (0, 1, 2, 5, 9, 30)] + [[3], [3, 3]]
    found = nearest(to_postings(worth), group, groups, counted(*flat(queries)), n)
    assert len(found.offset) == len(queries) * groups + 1
    for q, query in enumerate(queries):
        scores = worth[:, query].sum(axis=1)
        for g in range(groups):
            order = sorted((d for d in range(40) if scores[d] > 0 and group[d] == g), key=lambda d: (-scores[d], d))
            assert entries(found, q * groups + g) == [(d, scores[d]) for d in order[:n]]


def test_the_order_of_words_does_not_matter() -> None:
    rng = np.random.default_rng(1)
    postings = to_postings(rng.random((50, 30)).astype(np.float32))
    query = rng.integers(0, 30, 200)
    queries = counted(*flat([query.tolist(), rng.permutation(query).tolist()]))
    found = nearest(postings, np.zeros(50, np.int8), 1, queries, 50)
    assert entries(found, 0) == entries(found, 1)
    assert len(entries(found, 0)) == 50


@pytest.mark.parametrize("aggregation", ["max", "sum"])
@pytest.mark.parametrize("n", [1, 4, 64])
def test_label_scores_equal_the_reference(aggregation: str, n: int) -> None:
    rng = np.random.default_rng(n)
    labels, texts = 25, 60
    group = rng.integers(0, 2, labels).astype(np.int8)
    carried = [sorted(rng.choice(labels, rng.integers(0, 6), replace=False).tolist()) for _ in range(texts)]
    neighbours = []
    for size in (0, 1, 5, 20, 60):
        scores = -np.sort(-rng.integers(1, 9, size) / 2)
        neighbours.append(list(zip(rng.choice(texts, size, replace=False).tolist(), scores.tolist(), strict=True)))
    item, offset = flat([[text for text, _ in row] for row in neighbours])
    score = np.array([score for row in neighbours for _, score in row], np.float32)
    label, label_offset = flat(carried)
    found = label_scores(Ranked(offset, item, score), TextLabels(label_offset, label), group, 2, aggregation, n)
    names = {number: GROUPS[code] for number, code in enumerate(group)}
    cut = 0
    for q, row in enumerate(neighbours):
        expected = reference.label_scores(row, carried, names, aggregation, n)
        for g, name in enumerate(GROUPS):
            assert entries(found, q * 2 + g) == expected[name]
            cut += len(expected[name]) == n
    assert cut or n == 64


def test_aggregation_by_hand() -> None:
    """Texts 0 and 2 are neighbours; label 1 is theirs both, labels 0 and 3 tie."""
    carried = TextLabels(np.array([0, 2, 3, 6]), np.array([0, 1, 2, 1, 3, 4], np.int32))
    neighbours = Ranked(np.array([0, 2]), np.array([2, 0], np.int32), np.array([3, 3], np.float32))
    group = np.array([0, 0, 0, 0, 1], np.int8)
    best = label_scores(neighbours, carried, group, 2, "max", 64)
    assert (entries(best, 0), entries(best, 1)) == ([(0, 3), (1, 3), (3, 3)], [(4, 3)])
    added = label_scores(neighbours, carried, group, 2, "sum", 2)
    assert (entries(added, 0), entries(added, 1)) == ([(1, 6), (0, 3)], [(4, 3)])
