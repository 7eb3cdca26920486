"""Sums of pairs against the texts they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fusion.kernel.blocks import Hits
from fusion.metrics import Measure
from fusion.statistics.paired import UNIT, Aspect, PairedSums, aspects
from fusion.statistics.tally import hit_weights

MEASURES = [Measure("ndcg", 1), Measure("ndcg", 5), Measure("precision", 5)]
TEXTS, COLUMNS, FLIPS = 1200, 4, 200


class Sample:
    """Texts with one to four relevant labels and their ranks in four columns."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.relevant = rng.integers(1, 5, TEXTS)
        self.relevant_all = self.relevant + rng.integers(0, 3, TEXTS)
        self.counted = rng.random(TEXTS) < 0.9
        self.text = np.repeat(np.arange(TEXTS), self.relevant)
        # The second column is a little better than the first.
        self.ranks = rng.integers(0, 12, (len(self.text), COLUMNS)).astype(np.int32)
        self.ranks[:, 1] = np.where(rng.random(len(self.text)) < 0.2, 1, self.ranks[:, 0])
        self.keys = rng.integers(0, 2**62, TEXTS)

    def sums(self, start: int = 0, stop: int = TEXTS) -> PairedSums:
        sums = PairedSums(("tail",), MEASURES, COLUMNS, FLIPS, 7)
        mine = (self.text >= start) & (self.text < stop)
        part = slice(start, stop)
        hits = Hits("tail", self.text[mine] - start, self.text[mine].astype(np.int32), self.ranks[mine])
        sums.add(hits, self.counted[part], [self.relevant_all[part], self.relevant[part]], self.keys[part])
        return sums

    def figures(self, aspect: Aspect) -> np.ndarray:
        """One row a counted text, one column a column, in units."""
        number = self.relevant_all if aspect.ideal == "all" else self.relevant
        worth = hit_weights(aspect.measure, 12)[self.ranks, number[self.text][:, None]]
        found = np.zeros((TEXTS, COLUMNS))
        np.add.at(found, self.text, worth)
        return np.rint(found[self.counted] / UNIT) * UNIT


@pytest.fixture(scope="module")
def sample() -> Sample:
    return Sample()


def test_what_does_not_look_at_the_ideal_is_counted_once() -> None:
    found = aspects(("tail", "all"), MEASURES)
    assert Aspect("tail", Measure("ndcg", 5), "group") in found
    assert [str(a) for a in found if a.ideal == "group"] == ["tail ndcg@5 group"]
    assert len(found) == 4 + 3


def test_comparisons_equal_scipys_on_the_texts(sample: Sample) -> None:
    sums = sample.sums()
    for aspect in sums.aspects:
        figures = sample.figures(aspect)
        for i, j in [(0, 1), (3, 2)]:
            test, _ = sums.compare(aspect, i, j)
            expected = stats.ttest_rel(figures[:, i], figures[:, j])
            assert test.pairs == len(figures)
            assert test.statistic == pytest.approx(expected.statistic, rel=1e-10)
            assert test.p == pytest.approx(expected.pvalue, rel=1e-10)


def test_randomization_agrees_with_the_t_test(sample: Sample) -> None:
    sums = sample.sums()
    aspect = sums.aspects[1]
    t, p = sums.compare(aspect, 1, 0)
    assert t.p < 1e-6
    assert p == 1 / (1 + FLIPS)
    t, p = sums.compare(aspect, 2, 3)
    assert p is not None
    assert p == pytest.approx(t.p, abs=0.12)
    assert sums.compare(aspect, 2, 2) == (sums.compare(aspect, 2, 2)[0], 1.0)


def test_parts_add_up_to_the_whole(sample: Sample) -> None:
    """Signs come from the texts' ids, so that it does not matter where a text was counted."""
    whole = sample.sums()
    added = PairedSums(("tail",), MEASURES, COLUMNS, FLIPS, 7)
    for start, stop in [(700, TEXTS), (0, 3), (3, 700)]:
        for name, counts in sample.sums(start, stop).packed():
            places = np.flatnonzero(counts)
            added.unpack(name, places, counts[places])
    for name in ("queries", "sums", "products", "flipped"):
        np.testing.assert_array_equal(getattr(added, name), getattr(whole, name))
    assert whole.flipped.any()


def test_signs_are_fair_and_seeded(sample: Sample) -> None:
    sums = sample.sums()
    ones = PairedSums(("tail",), [Measure("precision", 1)], 1, 1000, 3)
    everyone = np.ones(TEXTS, bool)
    hits = Hits("tail", np.arange(TEXTS), np.zeros(TEXTS, np.int32), np.ones((TEXTS, 1), np.int32))
    ones.add(hits, everyone, [np.ones(TEXTS, np.int64)] * 2, np.arange(TEXTS))
    # Sums of 1,200 fair signs: mean 0, variance 1,200.
    drawn = ones.flipped[:, 0, 0] * UNIT
    assert abs(drawn.mean()) < 4 * np.sqrt(TEXTS / 1000)
    assert drawn.var() == pytest.approx(TEXTS, rel=0.2)
    assert not np.array_equal(sums.flipped[0], sums.flipped[1])
