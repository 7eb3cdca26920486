"""Changes between two results by sign blocks, against the texts themselves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fusion.statistics.significance import block_changes, same_texts
from fusion.statistics.signs import blocks_of, text_fingerprints

TEXTS, BLOCKS, UNIT = 400, 64, 2.0**-10


def test_with_one_text_per_block_it_is_the_paired_t_interval() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.integers(0, 1000, (2, 300, 3)).astype(float)
    found = block_changes(before, after, np.ones(300, np.int64), UNIT, 20_000, 0)
    for column, change in enumerate(found):
        differences = UNIT * (after - before)[:, column]
        expected = stats.ttest_1samp(differences, 0).confidence_interval()
        assert change.difference == pytest.approx(differences.mean(), rel=1e-10)
        assert (change.low, change.high) == pytest.approx((expected.low, expected.high), rel=1e-9)
        assert change.p == pytest.approx(stats.ttest_1samp(differences, 0).pvalue, abs=0.02)


def test_no_change_and_one_block() -> None:
    same = np.arange(12.0).reshape(6, 2)
    for change in block_changes(same, same, np.full(6, 3), UNIT, 1000, 0):
        assert change == (0, 0, 0, 1)
    (one,) = block_changes(np.zeros((1, 1)), np.ones((1, 1)), np.array([9]), UNIT, 1000, 0)
    assert np.isnan(one.low) and one.p == 1


def test_false_positives_and_intervals_are_what_they_claim() -> None:
    """Figures of the same texts before and after, exchangeable between the two: 5% at 0.05, and 95% intervals hold."""
    rng = np.random.default_rng(1)
    block = blocks_of(np.arange(TEXTS), BLOCKS)
    texts = np.bincount(block, minlength=BLOCKS)
    # A few texts differ a lot, most do not differ.
    figures = rng.integers(0, 1000, (TEXTS, 1000)) * (rng.random((TEXTS, 1000)) < 0.2)
    flipped = figures * rng.choice([-1, 1], (TEXTS, 1000))
    before, after = np.zeros((2, BLOCKS, 1000))
    np.add.at(after, block, flipped)
    kept = texts > 0
    found = block_changes(before[kept], after[kept], texts[kept], UNIT, 2000, 0)
    low, high = stats.binom.interval(0.999, 1000, 0.05)
    assert low <= sum(change.p < 0.05 for change in found) <= high
    assert low <= sum(not change.low <= 0 <= change.high for change in found) <= high


def test_blocks_are_the_same_only_with_the_same_texts_and_judgements() -> None:
    rng = np.random.default_rng(2)
    ids, stop = np.arange(TEXTS), 3 * np.arange(1, TEXTS + 1)
    labels = rng.integers(0, 50, 3 * TEXTS)
    block = blocks_of(ids, BLOCKS)

    def counted(ids: np.ndarray, labels: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        prints = text_fingerprints(ids, labels, stop - 3, stop)
        sums = np.zeros(BLOCKS, np.int64)
        np.add.at(sums, block[kept], prints[kept])
        return np.bincount(block[kept], minlength=BLOCKS), sums

    everyone = np.ones(TEXTS, bool)
    first = counted(ids, labels, everyone)
    reordered = labels.reshape(-1, 3)[:, ::-1].ravel()
    second = counted(ids, reordered, everyone)
    assert same_texts((first[0], second[0]), (first[1], second[1])).tolist() == (first[0] > 0).tolist()
    gone = everyone.copy()
    gone[17] = False
    judged = labels.copy()
    judged[3 * 33] += 1
    for text, other in ((17, counted(ids, labels, gone)), (33, counted(ids, judged, everyone))):
        same = same_texts((first[0], other[0]), (first[1], other[1]))
        assert np.flatnonzero(same != (first[0] > 0)).tolist() == [block[text]]
