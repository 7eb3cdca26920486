"""Sums of pairs against the texts they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fusion.grid.hits import Hits
from fusion.metrics import Aspect, Metric
from fusion.statistics.paired import FEWEST_LABELS, UNIT, PairedSums, distinct_aspects
from fusion.statistics.significance import Paired
from fusion.statistics.signs import blocks_of
from fusion.statistics.tally import hit_weights

METRICS = [Metric("ndcg", 1), Metric("ndcg", 5), Metric("precision", 5)]
TEXTS, COLUMNS, BLOCKS, VECTORS = 2500, 4, 256, 20_000


class Sample:
    """Texts with one to six relevant labels, up to four of them in the view, and their ranks in four columns."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.relevant = rng.integers(1, 5, TEXTS)
        self.relevant_all = self.relevant + rng.integers(0, 3, TEXTS)
        self.counted = rng.random(TEXTS) < 0.9
        self.text = np.repeat(np.arange(TEXTS), self.relevant)
        # The second column is a little better than the first.
        self.ranks = rng.integers(0, 12, (len(self.text), COLUMNS)).astype(np.int32)
        self.ranks[:, 1] = np.where(rng.random(len(self.text)) < 0.2, 1, self.ranks[:, 0])
        self.block = blocks_of(np.arange(TEXTS), BLOCKS)
        self.prints = rng.integers(-(2**63), 2**63, TEXTS)

    def sums(self, start: int = 0, stop: int = TEXTS) -> PairedSums:
        sums = new_sums()
        mine = (self.text >= start) & (self.text < stop)
        part = slice(start, stop)
        hits = Hits("tail", self.text[mine] - start, self.text[mine].astype(np.int32), self.ranks[mine])
        numbers = [self.relevant_all[part], self.relevant[part]]
        sums.add(hits, self.counted[part], numbers, self.block[part], self.prints[part])
        return sums

    def figures(self, aspect: Aspect) -> np.ndarray:
        """One row per counted text, one column per column, rounded to units."""
        number = self.relevant_all if aspect.ideal == "all" else self.relevant
        worth = hit_weights(aspect.metric_at_k, 12)[self.ranks, number[self.text][:, None]]
        found = np.zeros((TEXTS, COLUMNS))
        np.add.at(found, self.text, worth)
        return np.rint(found[self.counted] / UNIT) * UNIT


def new_sums() -> PairedSums:
    return PairedSums(("tail",), METRICS, COLUMNS, BLOCKS, VECTORS, 7)


@pytest.fixture(scope="module")
def sample() -> Sample:
    return Sample()


def test_what_has_the_same_figures_is_counted_once() -> None:
    metrics = [*METRICS, Metric("precision", 1)]
    same_as = distinct_aspects(("tail", "all"), metrics)
    assert len(same_as) == 4 * 2 + 4
    assert [str(aspect) for aspect in dict.fromkeys(same_as.values())] == [
        *("tail ndcg@1 all", "tail ndcg@5 all", "tail precision@5 all", "tail ndcg@5 group"),
        *("all ndcg@1 all", "all ndcg@5 all", "all precision@5 all"),
    ]
    assert str(same_as[Aspect("tail", "precision", 1, "group")]) == "tail ndcg@1 all"


def test_comparisons_equal_scipys_on_the_texts(sample: Sample) -> None:
    sums = sample.sums()
    for aspect in sums.same_as:
        figures = sample.figures(aspect)
        for i, j in [(0, 1), (3, 2)]:
            check(sums.compare(aspect, i, j), figures[:, i], figures[:, j])


def test_comparisons_by_the_number_of_relevant_labels(sample: Sample) -> None:
    sums = sample.sums()
    ends = [*FEWEST_LABELS[1:], np.inf]
    number = sample.relevant_all[sample.counted]
    for aspect in sums.same_as:
        texts = 0
        for size, (fewest, end) in enumerate(zip(FEWEST_LABELS, ends, strict=True)):
            figures = sample.figures(aspect)[(number >= fewest) & (number < end)]
            texts += len(figures)
            assert sums.texts(aspect, size) == len(figures)
            if len(figures):
                check(sums.compare(aspect, 2, 1, size), figures[:, 2], figures[:, 1])
                assert sums.mean(aspect, 2, size) == pytest.approx(figures[:, 2].mean(), rel=1e-12)
        assert texts == sample.counted.sum()
    assert sums.texts(aspect, 3) > 30
    assert sums.texts(aspect, 4) == 0


def test_many_comparisons_at_once_are_the_same(sample: Sample) -> None:
    """To the bit; also of a column with itself, and over one text."""
    text = int(np.flatnonzero(sample.counted)[0])
    sums, alone = sample.sums(), sample.sums(text, text + 1)
    i, j = np.indices((COLUMNS, COLUMNS)).reshape(2, -1)
    for of_texts, size in [(sums, None), (sums, 2), (alone, None)]:
        for aspect in of_texts.aspects:
            many = of_texts.compare_many(aspect, i, j, size)
            each = [of_texts.compare(aspect, int(a), int(b), size) for a, b in zip(i, j, strict=True)]
            for name in ("difference", "deviation", "statistic", "p", "low", "high", "effect"):
                np.testing.assert_array_equal(getattr(many, name), [getattr(test, name) for test in each])
            assert {test.pairs for test in each} == {many.pairs}


def check(test: Paired, a: np.ndarray, b: np.ndarray) -> None:
    expected = stats.ttest_rel(a, b)
    assert test.pairs == len(a)
    assert test.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert test.p == pytest.approx(expected.pvalue, rel=1e-10)


def test_randomization_agrees_with_the_t_test(sample: Sample) -> None:
    sums = sample.sums()
    aspect = sums.aspects[1]
    assert sums.compare(aspect, 1, 0).p < 1e-6
    # 256 sign vectors per coset: the number asked for is rounded up.
    assert sums.randomization(aspect, 1, 0) == pytest.approx(1 / (79 * 256), rel=1e-12)
    assert sums.randomization(aspect, 2, 3) == pytest.approx(sums.compare(aspect, 2, 3).p, abs=0.05)
    assert sums.randomization(aspect, 3, 2) == sums.randomization(aspect, 2, 3)
    assert sums.randomization(aspect, 2, 2) == 1


def test_no_randomization_without_blocks_or_vectors() -> None:
    for blocks, vectors in [(0, 1000), (16, 0)]:
        sums = PairedSums(("tail",), METRICS, 2, blocks, vectors, 0)
        assert sums.randomization(sums.aspects[0], 0, 1) is None


def test_texts_without_relevant_labels_count_as_queries() -> None:
    sums = PairedSums(("all",), [Metric("precision", 1)], 1)
    nothing = Hits("all", np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 1), np.int32))
    sums.add(nothing, np.array([True, True, False]), [np.array([0, 2, 2])] * 2, *np.zeros((2, 3), np.int64))
    assert sums.compare(sums.aspects[0], 0, 0).pairs == 2
    assert [sums.texts(sums.aspects[0], size) for size in range(5)] == [0, 1, 0, 0, 0]


def test_parts_add_up_to_the_whole(sample: Sample) -> None:
    """A text's block comes from its id, so that it does not matter where the text was counted."""
    whole = sample.sums()
    added = new_sums()
    for start, stop in [(700, TEXTS), (0, 3), (3, 700)]:
        for name, counts in sample.sums(start, stop).packed():
            places = np.flatnonzero(counts)
            added.unpack(name, places, counts[places])
    for name in ("queries", "sums", "products", "blocks", "block_texts", "block_prints"):
        np.testing.assert_array_equal(getattr(added, name), getattr(whole, name))
    np.testing.assert_array_equal(whole.blocks.sum(axis=1), whole.sums.sum(axis=1))
    assert whole.blocks.any(axis=(0, 2)).all()
    texts, prints = whole.texts_of_blocks(whole.aspects[1])
    assert texts.sum() == sample.counted.sum()
    assert prints.sum() == sample.prints[sample.counted].sum()
