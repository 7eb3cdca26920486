"""Hard negatives: the index against bm25s, the labels against plain Python, and what training makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import bm25s
import numpy as np
import pytest

from fusion.retrieval import hard_negatives as module
from fusion.retrieval import static
from fusion.retrieval.bags import Bags
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.hard_negatives import bm25_postings, draw_labels, hard_negatives
from fusion.retrieval.label_scores import reference
from fusion.retrieval.static import Labelled, StaticTraining, train_static
from fusion.types import Ints, Singles

TOKENS, WIDTH = 60, 16
TRAINING = StaticTraining(
    0.07, 0.01, epochs=4, patience=4, train_batch=16, extra_labels=2, hard_labels=2, hard_among=4, seed=0
)


def bags_from(rows: Sequence[Sequence[int]]) -> Bags:
    counted = [np.unique(np.array(row, np.int32), return_counts=True) for row in rows]
    offset = np.concatenate(([0], np.cumsum([len(token) for token, _ in counted]))).astype(np.int64)
    token = np.concatenate([token for token, _ in counted])
    return Bags(offset, token, np.concatenate([count for _, count in counted]).astype(np.float32))


def sets_from(rows: Sequence[Sequence[int]]) -> LabelSets:
    offsets = np.concatenate(([0], np.cumsum([len(row) for row in rows])))
    return LabelSets(offsets, np.array([label for row in rows for label in row], np.int64))


def listed(sets: LabelSets) -> list[list[int]]:
    return [some.tolist() for some in np.split(sets.labels, sets.offsets[1:-1])]


def made_texts(seed: int, texts: int = 40) -> tuple[list[list[int]], list[list[int]]]:
    """Texts of Zipf tokens, of which token 0 is in most texts, with one to three of the labels 0, 2, 4 to 18."""
    rng = np.random.default_rng(seed)
    chance = 1 / np.arange(3, TOKENS + 3)
    rows = [[0, *rng.choice(TOKENS, rng.integers(1, 20), p=chance / chance.sum()).tolist()] for _ in range(texts)]
    labels = [np.sort(2 * rng.choice(10, rng.integers(1, 4), replace=False)).tolist() for _ in range(texts)]
    return rows, labels


def okapi(rows: Sequence[Sequence[int]], query: Sequence[int], text: int) -> float:
    """BM25 in plain Python."""
    mean, score = np.mean([len(row) for row in rows]), 0.0
    for token in query:
        n, count = sum(token in row for row in rows), rows[text].count(token)
        idf = max(0.0, np.log((len(rows) - n + 0.5) / (n + 0.5)))
        score += idf * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * len(rows[text]) / mean))
    return score


def test_the_index_is_that_of_the_retriever() -> None:
    rows, _ = made_texts(0)
    rows += [[], [1]]
    theirs = bm25s.BM25(1.5, 0.75, method="atire", idf_method="robertson")
    vocabulary = {str(token): token for token in range(TOKENS)}
    theirs.index((rows, vocabulary), create_empty_token=False, show_progress=False)
    ours = bm25_postings(bags_from(rows), TOKENS)
    assert not ours.worth[ours.start[0] : ours.start[1]].any()
    assert ours.worth.max() > 1
    wanted, got = np.zeros((TOKENS, len(rows))), np.zeros((TOKENS, len(rows)))
    indptr = theirs.scores["indptr"]
    wanted[np.repeat(np.arange(TOKENS), np.diff(indptr)), theirs.scores["indices"]] = theirs.scores["data"]
    got[np.repeat(np.arange(TOKENS), np.diff(ours.start)), ours.document] = ours.worth
    np.testing.assert_allclose(got, wanted, rtol=2e-6)


def test_labels_equal_those_of_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, labels = made_texts(1)
    bags, known = bags_from(rows), sets_from(labels)
    found = listed(hard_negatives(bags, known, TOKENS, 4))
    for text, row in enumerate(rows):
        others = [(other, okapi(rows, row, other)) for other in range(len(rows)) if other != text]
        ranked = reference(
            [entry for entry in others if entry[1] > 0], labels, dict.fromkeys(range(20), "all"), "max", 20
        )
        assert found[text] == [label for label, _ in ranked["all"] if label not in labels[text]][:4]
    monkeypatch.setattr(module, "CHUNK", 7)
    assert listed(hard_negatives(bags, known, TOKENS, 4)) == found


def test_no_text_gets_a_label_of_its_own_or_one_without_texts() -> None:
    rows, labels = made_texts(2, texts=200)
    found = listed(hard_negatives(bags_from(rows), sets_from(labels), TOKENS, 32))
    for some, own in zip(found, labels, strict=True):
        assert not set(some) & set(own)
        assert all(label % 2 == 0 for label in some)
        assert len(set(some)) == len(some)
    assert np.mean([len(some) for some in found]) > 5


def test_texts_that_resemble_no_other_have_no_negatives() -> None:
    rows = [[1, 2], [2, 1], [7], [], [8, 9], [9], [10], [11]]
    known = sets_from([[0], [1], [2], [3], [4], [4, 5], [], [6]])
    negatives = hard_negatives(bags_from(rows), known, TOKENS, 3)
    assert listed(negatives) == [[1], [0], [], [], [5], [], [], []]
    rng = np.random.default_rng(0)
    assert draw_labels(negatives, np.array([2, 0, 3, 4]), 3, rng).tolist() == [1, 5] * 3
    assert draw_labels(negatives, np.array([2, 3]), 3, rng).tolist() == []


def test_draws_are_from_the_list_of_each_text() -> None:
    negatives = sets_from([[3, 1], [5], [9, 8, 7]])
    drawn = draw_labels(negatives, np.array([2, 0, 2, 1]), 50, np.random.default_rng(1)).reshape(50, 4)
    assert [set(column) for column in drawn.T.tolist()] == [{7, 8, 9}, {1, 3}, {7, 8, 9}, {5}]


def confusable_fold(labels: int = 80, texts: int = 600) -> tuple[Singles, Labelled, Labelled, Bags]:
    """Labels come in twos with texts that differ in a single token, so that few batches hold both of a pair."""
    rng = np.random.default_rng(5)
    carried = [[n % labels] for n in range(texts)]
    rows = [[label // 2] * 3 + [labels // 2 + label, *rng.integers(120, 160, 4)] for (label,) in carried]
    names = bags_from([[160 + label] for label in range(labels)])

    def labelled(begin: int, end: int) -> Labelled:
        return Labelled(bags_from(rows[begin:end]), sets_from(carried[begin:end]))

    start = rng.standard_normal((160 + labels, WIDTH)).astype(np.float32)
    return start, labelled(0, 400), labelled(400, texts), names


def test_training_with_hard_labels_repeats_and_learns() -> None:
    fold = confusable_fold()
    trained = train_static(*fold, TRAINING, "fold 0")
    again = train_static(*fold, TRAINING, "fold 0")
    assert again.model.table.tobytes() == trained.model.table.tobytes()
    assert again.model.own.tobytes() == trained.model.own.tobytes()
    without = train_static(*fold, replace(TRAINING, hard_labels=0), "fold 0")
    assert without.model.table.tobytes() != trained.model.table.tobytes()
    assert max(trained.mrr) >= max(without.mrr)


def steps_of(monkeypatch: pytest.MonkeyPatch, training: StaticTraining) -> list[tuple[Ints, Ints, Ints]]:
    """What each step of a training learns from: texts, their labels, further labels."""
    steps = []
    whole = static._Trainer.step

    def step(self: Any, texts: Ints, labels: Ints, extra: Ints, rate: float) -> float:
        steps.append((texts, labels, extra))
        return whole(self, texts, labels, extra, rate)

    with monkeypatch.context() as patched:
        patched.setattr(static._Trainer, "step", step)
        train_static(*confusable_fold(), training, "fold 0")
    return steps


def test_without_hard_labels_nothing_is_searched_or_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "hard_negatives", None)
    steps = steps_of(monkeypatch, replace(TRAINING, hard_labels=0))
    texts, labels = confusable_fold()[1].known.pairs()
    rng = np.random.default_rng(TRAINING.seed)
    for first in range(0, len(steps), 25):
        order = rng.permutation(400)
        for n, (some_texts, some_labels, extra) in enumerate(steps[first : first + 25]):
            batch = order[n * 16 : (n + 1) * 16]
            np.testing.assert_array_equal(some_texts, texts[batch])
            np.testing.assert_array_equal(some_labels, labels[batch])
            np.testing.assert_array_equal(extra, rng.choice(80, 2, replace=False))


def test_hard_labels_join_the_further_labels_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    train = confusable_fold()[1]
    near = listed(hard_negatives(train.bags, train.known, 240, TRAINING.hard_among))
    for texts, _, extra in steps_of(monkeypatch, TRAINING):
        hard = extra[TRAINING.extra_labels :].reshape(TRAINING.hard_labels, len(texts))
        assert all(label in near[text] for row in hard for text, label in zip(texts, row, strict=True))
