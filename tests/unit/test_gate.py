"""The nightly gate against scipy, with planted drops, and its false alarms over resampled nights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from fusion.statistics.gate import Sums, alarms, change


def sums(values: np.ndarray) -> Sums:
    return Sums(len(values), float(values.sum()), float((values**2).sum()))


def night(baseline: np.ndarray, tonight: np.ndarray, tolerance: float = 0.0):
    return change(sums(baseline), sums(tonight), sums(tonight - baseline), tolerance)


def test_a_drop_is_tested_as_scipy_does() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(400)
    after = before - 0.03 + rng.normal(0, 0.1, 400)
    found = night(before, after, 0.01)
    expected = stats.ttest_rel(after + 0.01, before, alternative="less")
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    interval = stats.ttest_rel(after, before).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high), rel=1e-9)
    assert found.paired


def test_other_texts_are_compared_as_scipy_does() -> None:
    rng = np.random.default_rng(1)
    before, after = rng.normal(0.5, 0.2, 300), rng.normal(0.45, 0.3, 500)
    found = change(sums(before), sums(after), Sums(10, 0.0, 0.0), 0.0)
    assert not found.paired
    expected = stats.ttest_ind(after, before, equal_var=False, alternative="less")
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)


def test_nights_without_variance() -> None:
    same = np.full(50, 0.4)
    assert night(same, same).p == 1
    assert night(same, same - 0.02, 0.005).p == 0


def test_a_drop_over_too_few_texts_is_untested_and_no_chance_result() -> None:
    text = Sums(1, 0.9, 0.81)
    fell = change(text, Sums(1, 0.0, 0.0), Sums(1, -0.9, 0.81), 0.005, text)
    assert (fell.paired, fell.texts, fell.difference, fell.untested) == (True, 1, -0.9, True)
    assert math.isnan(fell.p) and alarms({"one text": fell}, 0.01) == {}
    # Of many texts then, one is left: that one is compared with itself.
    many = Sums(100, 20.0, 10.0)
    assert change(many, Sums(1, 0.0, 0.0), Sums(1, -0.9, 0.81), 0.005, text).difference == -0.9
    assert not change(many, Sums(1, 0.9, 0.81), Sums(1, 0.0, 0.0), 0.005, text).untested
    # Another text than all of then cannot be tested either.
    assert change(many, Sums(1, 0.0, 0.0), Sums(0, 0.0, 0.0), 0.005).untested


def test_figures_with_levels_of_their_own() -> None:
    """The correction is over all of them, whatever their levels."""
    rng = np.random.default_rng(5)
    before = rng.random(40)
    changes = {name: night(before, before + rng.normal(-0.08, 0.15, 40)) for name in "ab"}
    p = alarms(changes, 1.1)
    assert list(alarms(changes, {"a": 1.1, "b": 0.0}.__getitem__)) == ["a"]
    assert alarms(changes, lambda name: p[name]) == {}
    assert min(p.values()) == 2 * min(change.p for change in changes.values())


def test_a_planted_drop_is_caught_and_a_small_one_is_tolerated() -> None:
    rng = np.random.default_rng(2)
    before = rng.random(5000)
    noise = rng.normal(0, 0.1, 5000)
    nights = {
        "two points": night(before, before + noise - 0.02, 0.005),
        "a little": night(before, before - 0.004, 0.005),
    }
    assert list(alarms(nights, 0.01)) == ["two points"]
    assert nights["two points"].difference == pytest.approx(-0.02, abs=0.005)


@pytest.mark.parametrize(("tolerance", "most"), [(0.005, 2), (0.0, 7)])
def test_false_alarms_of_resampled_nights(tolerance: float, most: int) -> None:
    """200 nights of a system that did not change: texts drawn anew, four watched figures, level 1%.

    At the stated tolerance at most 1% of the nights may alarm. Without any, alarms are as frequent as the level says,
    and more than 7 of 200 would be an accident of one in a thousand.
    """
    rng = np.random.default_rng(3)
    # Figures of texts are far from normal: most are 0, 1 or a few values between.
    figures = rng.choice([0.0, 0.31, 0.5, 0.63, 1.0], size=(2000, 4), p=[0.3, 0.1, 0.15, 0.1, 0.35])
    moved = np.where(rng.random((2000, 4)) < 0.2, rng.permuted(figures, axis=0), figures)
    moved -= (moved - figures).mean(axis=0)
    false = 0
    for _ in range(200):
        texts = rng.integers(0, 2000, 2000)
        changes = {f: night(figures[texts, f], moved[texts, f], tolerance) for f in range(4)}
        false += bool(alarms(changes, 0.01))
    assert false <= most
