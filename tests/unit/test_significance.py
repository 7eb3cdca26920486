"""The tests of significance against scipy and statsmodels, and the marking of winners on hand-made cases."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from fusion.statistics.significance import (
    EXACT_SUM,
    RankedGroups,
    best_of,
    holm,
    paired_t,
    paired_t_of_sums,
    ranked_groups,
    sign_change_p,
    wilson_interval,
    winners,
)


@pytest.mark.parametrize("n", [2, 5, 500])
def test_paired_t_equals_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.normal(0.5, 0.1, n), rng.normal(0.48, 0.1, n)
    expected = stats.ttest_rel(a, b)
    interval = expected.confidence_interval(0.95)
    found = paired_t(a - b)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-10)
    assert found.p == pytest.approx(expected.pvalue, rel=1e-10)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-10)
    assert found.effect == pytest.approx((a - b).mean() / (a - b).std(ddof=1), rel=1e-10)


def test_sums_give_the_same_test_and_lose_nothing() -> None:
    """A million nearly equal differences: their sums of squares cancel to the last digits."""
    rng = np.random.default_rng(0)
    whole = 200_000 + rng.integers(-2, 3, 1_000_000)
    found = paired_t_of_sums(len(whole), int(whole.sum()), int((whole.astype(object) ** 2).sum()), 2.0**-18)
    expected = stats.ttest_1samp(whole * 2.0**-18, 0)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert found.deviation == pytest.approx(whole.std(ddof=1) * 2.0**-18, rel=1e-10)


def test_no_spread_and_no_pairs() -> None:
    assert paired_t([0.0, 0.0, 0.0]).p == 1
    assert paired_t([0.1, 0.1, 0.1]).p == 0
    assert paired_t([0.3 - 0.1 - 0.2, 0.0, 0.0]).p == 1  # a rounding error, not a difference
    assert math.isnan(paired_t([0.1]).p)


def test_holm_equals_statsmodels() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p = rng.random(30) ** 3
        expected = multipletests(p, method="holm")[1]
        found = holm(dict(enumerate(p)))
        assert list(found) == list(range(30))
        np.testing.assert_allclose(list(found.values()), expected, rtol=1e-12)


def test_sign_test_of_single_labels_is_mcnemars() -> None:
    """Texts that differ by one label each: scipy's binomial test, to the last digits where the sum is small."""
    rng = np.random.default_rng(2)
    counts = np.vstack([rng.integers(0, size, (20, 2)) for size in (4, 40, 140, 4000)])
    for (one, other), p in zip(counts.tolist(), sign_change_p(counts), strict=True):
        expected = stats.binomtest(one, one + other).pvalue if one + other else 1.0
        exact = one + other <= EXACT_SUM
        assert p == pytest.approx(expected, rel=1e-9) if exact else p == pytest.approx(expected, abs=2e-4)


def test_sign_test_of_several_labels_per_text_is_exact() -> None:
    """Against all sign vectors of twelve texts that differ by one to three labels."""
    rng = np.random.default_rng(3)
    signs = np.array(list(product((-1, 1), repeat=12)))
    for _ in range(10):
        differences = rng.integers(1, 4, 12) * rng.choice([-1, 1], 12)
        moves = np.zeros(6, np.int64)
        for difference in differences:
            moves[abs(difference) - 1 + 3 * (difference < 0)] += 1
        expected = (abs(signs @ abs(differences)) >= abs(differences.sum())).mean()
        assert sign_change_p(moves) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("texts", [30, 1000])
def test_false_positives_where_pairs_of_a_text_go_together(texts: int) -> None:
    """No difference on the whole, but a text is won or lost with all its labels: the test over texts is wrong in 5% of
    2,000 cases, and McNemar's test, which takes pairs as independent, far more often."""
    rng = np.random.default_rng(texts)
    labels = rng.integers(1, 6, texts)
    won = rng.random((2000, texts)) < 0.5
    moves = np.stack(
        [(side[:, :, None] & (labels[:, None] == np.arange(1, 9))).sum(axis=1) for side in (won, ~won)], axis=1
    )
    p = sign_change_p(moves.reshape(2000, 16))
    low, high = stats.binom.interval(0.999, 2000, 0.05)
    # Few texts have few sums, so that the test may only be more careful.
    assert (low if texts > 100 else 0) <= (p < 0.05).sum() <= high
    pairs = np.stack([(side * labels).sum(axis=1) for side in (won, ~won)], axis=1)
    assert (sign_change_p(pairs) < 0.05).sum() > 2 * high


def test_wilson_interval_equals_scipys() -> None:
    hits, trials = np.array([0, 1, 7, 50, 50]), np.array([3, 3, 20, 1000, 50])
    low, high = wilson_interval(hits, trials)
    for n in range(len(hits)):
        expected = stats.binomtest(int(hits[n]), int(trials[n])).proportion_ci(method="wilson")
        assert (low[n], high[n]) == pytest.approx((expected.low, expected.high), rel=1e-10, abs=1e-15)


def test_winners() -> None:
    means = {"a": 0.5, "b": 0.6, "c": 0.6}
    assert best_of(means) == "b"
    assert winners({"a": 0.01, "c": 0.7}, "b") == {"b", "c"}
    assert winners({"a": 0.05, "c": None}, "b") == {"a", "b"}


def test_bold_face_of_folds_with_the_papers_spread() -> None:
    """Fold values made to the paper's means and deviations: 51.5(1.7) against 51.3(1.6) and 45.0(1.2)."""

    def folds(mean: float, std: float, shape: list[float]) -> np.ndarray:
        values = np.array(shape)
        return mean + std * (values - values.mean()) / values.std(ddof=1)

    best, near, far = (
        folds(51.5, 1.7, [1, 2, 3, 4, 5]),
        folds(51.3, 1.6, [1, 3, 2, 5, 4]),
        folds(45.0, 1.2, [2, 1, 3, 4, 5]),
    )
    p = {"near": paired_t(near - best).p, "far": paired_t(far - best).p}
    assert winners(p, "best") == {"best", "near"}
    # Folds that rise and fall together tell small differences apart.
    assert paired_t(folds(51.3, 1.7, [1, 2, 3, 4, 5.001]) - best).p < 0.05


def test_mean_ranks_and_groups_by_the_folds() -> None:
    """Two that take turns, and one that is far behind in every fold."""
    values = {"far": [0.10, 0.11, 0.12], "a": [0.50, 0.52, 0.54], "b": [0.51, 0.52, 0.53]}
    found = ranked_groups(values)
    assert list(found.mean_ranks.items()) == [("a", pytest.approx(1.5)), ("b", pytest.approx(1.5)), ("far", 3.0)]
    assert found.groups == [("a", "b")]


def test_groups_by_the_tests_of_texts() -> None:
    """a-b-c and b-c-d are not significantly different, a and d are; e stands alone."""
    values = {key: [value] for key, value in zip("abcde", (0.5, 0.4, 0.3, 0.2, 0.1), strict=True)}
    p = dict.fromkeys(map(tuple, ["ab", "ac", "bc", "bd", "cd"]), 0.9)
    p |= dict.fromkeys(map(tuple, ["da", "ae", "be", "ce", "de"]), 1e-6)
    found = ranked_groups(values, p)
    assert found.mean_ranks == {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}
    assert found.groups == [("a", "b", "c"), ("b", "c", "d")]
    # Holm's correction over the ten pairs: 0.006 * 6 is below alpha, 0.01 * 6 is not.
    for worst, groups in [(0.006, 2), (0.01, 3)]:
        assert len(ranked_groups(values, {**p, ("d", "e"): worst}).groups) == groups
    assert ranked_groups(values, {**p, ("a", "b"): 1e-6}).groups == [("b", "c", "d")]


def test_one_fold_tells_nothing_apart() -> None:
    assert ranked_groups({"a": [0.5], "b": [0.1]}).groups == [("a", "b")]
    assert ranked_groups({"a": [0.5]}) == RankedGroups({"a": 1.0}, [])
