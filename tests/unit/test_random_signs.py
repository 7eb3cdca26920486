"""Random signs by blocks, against all sign changes there are and against signs of single texts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from fusion.statistics.signs import blocks_of, randomization_p

VECTORS = 100_000


def test_equals_scipys_exact_test() -> None:
    """Ten blocks have 1,024 sign changes, which scipy tries one by one."""
    differences = np.rint(np.random.default_rng(2).normal(300, 1000, 10))
    exact = stats.permutation_test(
        (differences,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=np.inf
    ).pvalue
    sums = np.zeros((1, 1024, 2))
    sums[0, 100:110, 0] = differences + 5
    sums[0, 100:110, 1] = 5
    found = randomization_p(sums, VECTORS, 0)
    assert 0.1 < exact < 0.9
    assert found[0, 0, 1] == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / VECTORS))
    assert found[0, 1, 0] == found[0, 0, 1]
    assert found[0, 0, 0] == 1


def test_all_blocks_and_several_columns() -> None:
    """Sums of many blocks are as good as normal."""
    rng = np.random.default_rng(3)
    sums = np.rint(rng.normal(0, 1e5, (2, 1000, 5)))
    sums[:, :, 1] += 5_000
    found = randomization_p(sums, VECTORS, 1)
    for aspect in range(2):
        for i in range(5):
            for j in range(i):
                d = sums[aspect, :, i] - sums[aspect, :, j]
                expected = 2 * stats.norm.sf(abs(d.sum()) / np.sqrt((d**2).sum()))
                assert found[aspect, i, j] == pytest.approx(expected, abs=0.01)


def test_resolution_and_seed() -> None:
    sums = np.ones((1, 64, 2))
    sums[:, :, 1] = 0
    # Of 2^64 sign changes only two leave the sum as far from zero.
    assert randomization_p(sums, 999, 0)[0, 0, 1] == 1 / 1024
    sums[0, :24, 0] = -1
    first, second = (randomization_p(sums, VECTORS, seed)[0, 0, 1] for seed in (0, 1))
    assert first == randomization_p(sums, VECTORS, 0)[0, 0, 1]
    assert first != second
    assert first == pytest.approx(second, rel=0.05)


def test_blocks_are_even_and_depend_on_the_id_alone() -> None:
    keys = np.arange(-50_000, 50_000)
    blocks = blocks_of(keys, 100)
    assert np.bincount(blocks, minlength=100).min() > 850
    assert np.bincount(blocks, minlength=100).max() < 1150
    np.testing.assert_array_equal(blocks_of(keys[::-1], 100), blocks[::-1])


def test_false_positives_are_as_many_as_promised() -> None:
    """400 comparisons of two columns that do not differ, 3,000 texts each, half of which the columns agree on."""
    rng = np.random.default_rng(5)
    block = blocks_of(np.arange(3000), 128)
    sums = np.zeros((400, 128, 2))
    for comparison in sums:
        better = rng.exponential(1000, (3000, 2)) * (rng.random((3000, 1)) < 0.5)
        np.add.at(comparison, block, np.rint(better))
    p = randomization_p(sums, 2000, 0)[:, 0, 1]
    low, high = stats.binom.ppf([0.001, 0.999], 400, 0.05)
    assert low <= (p < 0.05).sum() <= high
    assert stats.kstest(p, "uniform").pvalue > 0.001
