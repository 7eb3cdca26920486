"""Simulated nights: what is planted is noticed, and quiet nights are quiet. benchmarks/nights.py has many more."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from scipy.stats import binom

from benchmarks.nights import A_SHARE, planted, quiet_years
from benchmarks.simulated_nights import ALPHA, EPISODES, RED, Episode, lost, regression, rewatched, simulate

FEW: tuple[Episode, ...] = (
    partial(regression, "one fold", 0.6),
    partial(lost, "query_figures", True),
    partial(rewatched, "other", "metrics", ["recall@10"], True),
)


@pytest.mark.parametrize(
    ("episodes", "repeated", "quiet"),
    [
        (FEW, True, 1),
        pytest.param(EPISODES, False, 3, marks=pytest.mark.drill),
        pytest.param(EPISODES, True, 3, marks=pytest.mark.drill),
    ],
    ids=["few", "texts in one fold", "texts in two folds"],
)
def test_planted_events_are_noticed_and_quiet_nights_are_quiet(
    tmp_path: Path, episodes: tuple[Episode, ...], repeated: bool, quiet: int
) -> None:
    outcomes = simulate(tmp_path, 1, repeated, episodes, quiet)
    assert not [str(night) for night in outcomes if night.wrong]
    assert any(night.expected == RED and night.event.startswith("regression") for night in outcomes)


def test_decisions_keep_their_level_and_find_what_is_planted() -> None:
    rate = quiet_years(200, 3, tolerance=0.0)
    assert rate.alarms <= binom.ppf(0.999, rate.nights, ALPHA)
    rate = planted(A_SHARE, 1_000, 4.0, most=100)
    assert rate.alarms == rate.nights == 100
