"""Label trees: what is grown, what is ranked, and what the answer must not depend on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from fusion.retrieval.bags import Bags, TfIdf, counted
from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.label_trees import CLUSTERS, Forest, Growing, forest_labels, grow_forest
from udfs.retrieval.tree import stoppable
from udfs.steps import AbandonedError, while_wanted

TEXTS, LABELS, OWN = 400, 60, 5
"""Each label has five words of its own; the last ten labels have no text."""
CARRIED = LABELS - 10
WORDS = LABELS * OWN
KINDS = list(CLUSTERS)


def labelled_texts(seed: int = 0) -> tuple[Bags, LabelSets]:
    """Texts that say words of their labels, and words of others."""
    rng = np.random.default_rng(seed)
    sets = [np.unique(rng.integers(0, CARRIED, rng.integers(1, 4))) for _ in range(TEXTS)]
    said = [
        np.append(np.repeat(some, 4) * OWN + rng.integers(0, OWN, 4 * len(some)), rng.integers(0, WORDS, 5))
        for some in sets
    ]
    offset, labels = (np.concatenate(([0], np.cumsum([len(row) for row in rows]))) for rows in (said, sets))
    bags = counted(np.concatenate(said), offset)
    return TfIdf.of(bags, 1).vectors(bags), LabelSets(labels, np.concatenate(sets))


@pytest.fixture(scope="module")
def made() -> tuple[Bags, LabelSets]:
    return labelled_texts()


@pytest.fixture(scope="module", params=KINDS)
def forest(request, made) -> Forest:
    return grow_forest(made[0], WORDS, made[1], growing(request.param))


def growing(kind: str = "parabel", **other: object) -> Growing:
    return Growing(**{"kind": kind, "trees": 2, "leaf": 8, "cost": 1.0, **other})


def ranked(forest: Forest, texts: Bags, beam: int = 10, n: int = 5) -> list[list[tuple[int, float]]]:
    """The best labels of each text, all in one group."""
    lists = forest_labels(forest, texts, WORDS, np.zeros(LABELS, np.int8), 1, beam, n)
    pairs = list(zip(lists.item.tolist(), lists.score.tolist(), strict=True))
    return [pairs[begin:end] for begin, end in zip(lists.offset[:-1], lists.offset[1:], strict=True)]


def test_every_carried_label_is_in_every_tree_once(forest, made) -> None:
    of_leaf = np.repeat(forest.leaf, np.diff(forest.row))
    in_tree = np.repeat(np.searchsorted(forest.roots, np.arange(len(forest.leaf)), "right"), np.diff(forest.row))
    for tree in (1, 2):
        assert sorted(forest.target[of_leaf & (in_tree == tree)]) == np.unique(made[1].labels).tolist()
    # Every node but the roots is below one other.
    below = forest.target[~of_leaf]
    assert sorted(below) == sorted(set(range(len(forest.leaf))) - set(forest.roots.tolist()))


def test_leaves_are_small_and_halves_equal(made) -> None:
    forest = grow_forest(made[0], WORDS, made[1], growing())
    sizes = np.diff(forest.row)
    assert sizes[forest.leaf].max() < 8
    assert sizes[forest.leaf].min() >= 4
    assert set(sizes[~forest.leaf]) == {2}


def test_labels_that_texts_speak_of_come_first(forest, made) -> None:
    new, known = labelled_texts(seed=1)
    first = [
        rows[0][0] in known.labels[known.offsets[i] : known.offsets[i + 1]]
        for i, rows in enumerate(ranked(forest, new))
    ]
    assert np.mean(first) > 0.9
    assert all(label < CARRIED for rows in ranked(forest, new, n=LABELS) for label, _ in rows)


def test_threads_decide_nothing(forest, made) -> None:
    kind = "parabel" if np.diff(forest.row)[0] == 2 else "bonsai"
    with ThreadPoolExecutor(3) as pool:
        again = grow_forest(made[0], WORDS, made[1], growing(kind), pool.map)
    for before, after in zip(forest, again, strict=True):
        np.testing.assert_array_equal(before, after)
    other = grow_forest(made[0], WORDS, made[1], growing(kind, seed=1))
    assert ranked(other, made[0]) != ranked(forest, made[0])


def test_growing_ends_when_nobody_waits(made) -> None:
    abandoned = Event()
    with ThreadPoolExecutor(2) as pool, while_wanted(abandoned):
        alike = grow_forest(made[0], WORDS, made[1], growing(), stoppable(pool))
        abandoned.set()
        with pytest.raises(AbandonedError):
            grow_forest(made[0], WORDS, made[1], growing(), stoppable(pool))
    np.testing.assert_array_equal(alike.weight, grow_forest(made[0], WORDS, made[1], growing()).weight)


def test_other_texts_of_a_batch_decide_nothing(forest, made) -> None:
    together = ranked(forest, made[0], beam=2)
    for i in range(0, TEXTS, 40):
        some = slice(made[0].offset[i], made[0].offset[i + 1])
        alone = Bags(made[0].offset[i : i + 2] - made[0].offset[i], made[0].token[some], made[0].times[some])
        assert ranked(forest, alone, beam=2) == [together[i]]


def test_probabilities_by_hand(forest, made) -> None:
    """A beam that holds every leaf gives the product of all probabilities on the way, as a mean over trees."""
    listed = dict(ranked(forest, made[0], beam=1000, n=LABELS)[7])
    x = np.zeros(WORDS)
    x[made[0].token[made[0].offset[7] : made[0].offset[8]]] = made[0].times[made[0].offset[7] : made[0].offset[8]]
    found: dict[int, float] = {}

    def walk(node: int, logarithm: float) -> None:
        for child in range(forest.row[node + 1] - forest.row[node]):
            row = forest.row[node] + child
            margin = forest.bias[row]
            for place in range(forest.start[node], forest.start[node + 1]):
                for entry in range(forest.entry[place], forest.entry[place + 1]):
                    if forest.child[entry] == child:
                        margin += forest.weight[entry] * x[forest.term[place]]
            below, target = logarithm - max(0.0, 1 - margin) ** 2, int(forest.target[row])
            if forest.leaf[node]:
                found[target] = found.get(target, 0.0) + np.exp(below) / len(forest.roots)
            else:
                walk(target, below)

    for root in forest.roots:
        walk(int(root), 0.0)
    assert set(listed) == set(found)
    for label, score in listed.items():
        assert score == pytest.approx(found[label], abs=1e-6)


def test_classifiers_are_those_of_scikit_learn(made) -> None:
    """A single leaf is one support vector machine per label."""
    svm = pytest.importorskip("sklearn.svm")
    forest = grow_forest(made[0], WORDS, made[1], growing(trees=1, leaf=LABELS + 1))
    assert forest.leaf.tolist() == [True]
    dense = np.zeros((TEXTS, WORDS))
    row = np.repeat(np.arange(TEXTS), np.diff(made[0].offset))
    dense[row, made[0].token] = made[0].times
    ours = np.zeros((WORDS, CARRIED))
    ours[np.repeat(forest.term, np.diff(forest.entry)), forest.child] = forest.weight
    text, label = made[1].pairs()
    for number in range(0, CARRIED, 7):
        carried = np.zeros(TEXTS, np.bool_)
        carried[text[label == number]] = True
        machine = svm.LinearSVC(tol=1e-4, random_state=0).fit(dense, carried)
        place = forest.target.tolist().index(number)
        theirs = dense @ machine.coef_[0] + machine.intercept_[0]
        assert np.abs(dense @ ours[:, place] + forest.bias[place] - theirs).max() < 0.25


@pytest.mark.parametrize("kind", KINDS)
def test_few_labels_and_texts_without_words(kind: str) -> None:
    texts = Bags(np.array([0, 1, 2, 2]), np.array([3, 4], np.int32), np.ones(2, np.float32))
    forest = grow_forest(texts, WORDS, LabelSets(np.array([0, 1, 2, 3]), np.array([7, 7, 9])), growing(kind, leaf=2))
    lists = ranked(forest, texts)
    assert [{label for label, _ in rows} for rows in lists] == [{7, 9}] * 3
    assert lists[0][0][0] == 7
    assert lists[2][0][0] == 9
    one = grow_forest(texts, WORDS, LabelSets(np.array([0, 1, 1, 1]), np.array([7])), growing(kind))
    assert [rows[0][0] for rows in ranked(one, texts)] == [7] * 3


def test_groups_are_ranked_apart(forest, made) -> None:
    group = (np.arange(LABELS) % 2).astype(np.int8)
    lists = forest_labels(forest, made[0], WORDS, group, 2, 1000, 3)
    assert len(lists.offset) == 2 * TEXTS + 1
    of_list = np.repeat(np.arange(2 * TEXTS) % 2, np.diff(lists.offset))
    np.testing.assert_array_equal(group[lists.item], of_list)
    assert np.diff(lists.offset).min() == 3
