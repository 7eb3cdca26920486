"""Calibrations, their error, and the choice of how many labels are assigned."""

from __future__ import annotations

import doctest
import json

import numpy as np
import pytest
from scipy.optimize import minimize

from fusion.errors import ConfigError, InputError
from fusion.models import calibration
from fusion.models.calibration import (
    ENOUGH_FOR_ISOTONIC,
    Isotonic,
    Platt,
    calibration_error,
    calibration_from_json,
    fit_calibration,
    fit_isotonic,
    fit_platt,
    reliability,
    reliability_of_expected,
)
from fusion.tuning import assignment
from fusion.tuning.assignment import choose_assignment, parse_aim


def made(seed: int, rows: int = 600) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with ties."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(2, 3, rows).round(1)
    return scores, rng.random(rows) < 1 / (1 + np.exp(2 - scores)), rng.integers(1, 4, rows).astype(float)


@pytest.mark.parametrize("fit", [fit_platt, fit_isotonic])
@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_rows_changes_no_byte(fit, seed: int) -> None:
    scores, relevant, weights = made(seed)
    order = np.random.default_rng(seed).permutation(len(scores))
    written = json.dumps(fit(scores, relevant, weights).to_json())
    assert written == json.dumps(fit(scores[order], relevant[order], weights[order]).to_json())
    read = calibration_from_json(json.loads(written))
    asked = np.linspace(-20, 20, 999)
    assert read.probabilities(asked).tobytes() == fit(scores, relevant, weights).probabilities(asked).tobytes()


@pytest.mark.parametrize("fit", [fit_platt, fit_isotonic])
@pytest.mark.parametrize("seed", range(5))
def test_monotone_and_between_0_and_1(fit, seed: int) -> None:
    scores, relevant, _ = made(seed)
    for judged in (relevant, ~relevant):
        values = fit(scores, judged).probabilities(np.linspace(-1e4, 1e4, 5_001))
        assert (np.diff(values) >= 0).all() and values.min() >= 0 and values.max() <= 1


def test_a_weight_is_a_number_of_rows() -> None:
    scores, relevant, weights = made(7)
    times = weights.astype(int)
    repeated = np.repeat(scores, times), np.repeat(relevant, times)
    assert fit_isotonic(scores, relevant, weights) == fit_isotonic(*repeated)
    ours, theirs = fit_platt(scores, relevant, weights), fit_platt(*repeated)
    assert (ours.slope, ours.intercept) == pytest.approx((theirs.slope, theirs.intercept), rel=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_platt_is_the_optimum_at_any_scale(scale: float) -> None:
    scores, relevant, _ = made(3)
    yes, no = relevant.sum(), (~relevant).sum()
    target = np.where(relevant, (yes + 1) / (yes + 2), 1 / (no + 2))

    def loss(curve: np.ndarray) -> float:
        value = curve[0] * scores + curve[1]
        return float(np.sum(np.logaddexp(0, value) - target * value))

    best = minimize(loss, np.zeros(2), tol=1e-14).x
    found = fit_platt(scores * scale, relevant)
    assert (found.slope * scale, found.intercept) == pytest.approx(tuple(best), rel=1e-4)


def test_platt_where_nothing_can_be_fitted() -> None:
    alone = fit_platt(np.array([3.0, 3.0, 3.0]), np.array([True, False, False]))
    assert alone.slope == 0 and alone.probabilities(np.array([0.0]))[0] == pytest.approx((2 / 3 + 2 / 4) / 3)
    divided = fit_platt(np.arange(10.0), np.arange(10) >= 5)
    assert 0 < divided.slope < 100
    against = fit_platt(np.arange(10.0), np.arange(10) < 5)
    assert against.slope == 0
    for judged in (np.ones(10, bool), np.zeros(10, bool)):
        assert 0 < fit_platt(np.arange(10.0), judged).probabilities(np.array([4.0]))[0] < 1


def test_isotonic_by_hand() -> None:
    curve = fit_isotonic(np.array([1, 2, 3, 4, 5.0]), np.array([0, 1, 0, 1, 1], bool))
    assert curve == Isotonic((1.0, 2.0, 3.0, 4.0, 5.0), (0.0, 0.5, 0.5, 1.0, 1.0))
    assert curve.probabilities(np.array([-9, 1.5, 2.5, 3.5, 9])).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert fit_isotonic(np.array([1.0, 1.0]), np.array([True, False])) == Isotonic((1.0,), (0.5,))


def test_few_rows_get_the_curve_of_two_parameters() -> None:
    scores, relevant, _ = made(1, ENOUGH_FOR_ISOTONIC)
    assert isinstance(fit_calibration(scores, relevant), Isotonic)
    assert isinstance(fit_calibration(scores[1:], relevant[1:]), Platt)


@pytest.mark.parametrize(
    ("scores", "weights"),
    [([np.nan, 1.0], None), ([1.0, np.inf], None), ([1.0, 2.0], [1.0, -1.0]), ([1.0, 2.0], [0.0, 0.0]), ([1.0], None)],
)
def test_bad_rows_are_refused(scores: list[float], weights: list[float] | None) -> None:
    with pytest.raises(InputError):
        fit_isotonic(np.array(scores), np.array([True, False]), None if weights is None else np.array(weights))


@pytest.mark.parametrize(
    "described",
    [
        {"slope": -1, "intercept": 0},
        {"slope": float("nan"), "intercept": 0},
        {"scores": [1, 1], "values": [0, 1]},
        {"scores": [1, 2], "values": [1, 0]},
        {"scores": [1, 2], "values": [0, 1.5]},
        {"scores": [1, 2], "values": [0]},
        {"scores": [], "values": []},
    ],
)
def test_damaged_curves_are_refused(described: dict) -> None:
    with pytest.raises(InputError):
        calibration_from_json(described)


def test_reliability_and_error_by_hand() -> None:
    probability = np.repeat([0.1, 0.5, 0.9], [4, 4, 4])
    relevant = np.array([0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1, 1], bool)
    table = reliability(probability, relevant, bins=3)
    assert [(line.rows, line.probability, line.frequency) for line in table] == [
        (4, pytest.approx(0.1), 0.25),
        (4, pytest.approx(0.5), 0.5),
        (4, pytest.approx(0.9), 1.0),
    ]
    assert calibration_error(table) == pytest.approx((0.15 + 0 + 0.1) / 3)


def test_bins_that_expect_as_many_relevant_labels() -> None:
    """A candidate of 0.9 counts as much as nine of 0.1; one without probability counts for nothing, but is no error."""
    probability = np.repeat([0.0, 0.1, 0.9], [5, 9, 1])
    relevant = np.arange(15) >= 13
    never, hardly, often = reliability_of_expected(probability, relevant)
    assert (never.rows, hardly.rows, often.rows) == (5, 9, 1)
    assert hardly.weight == pytest.approx(often.weight) and often.frequency == 1
    assert (hardly.probability, hardly.frequency) == (pytest.approx(0.1), pytest.approx(1 / 9))
    assert calibration_error(reliability_of_expected(np.zeros(3), np.zeros(3, bool))) == 0


def test_bins_have_equal_mass_and_calibration_repairs_the_error() -> None:
    rng = np.random.default_rng(5)
    scores = rng.normal(0, 2, 30_000)
    relevant = rng.random(len(scores)) < 1 / (1 + np.exp(3 - scores))
    table = reliability(1 / (1 + np.exp(-scores)), relevant)
    assert len(table) == 15 and {line.rows for line in table} == {2_000}
    assert calibration_error(table) > 0.2
    for fit in (fit_platt, fit_isotonic):
        calibrated = fit(scores[::2], relevant[::2]).probabilities(scores[1::2])
        assert calibration_error(reliability(calibrated, relevant[1::2])) < 0.01


def assigned_by_hand(probability, relevant, text, total, threshold, top):
    """Precision, recall and F1, text by text."""
    hits = number = 0
    for one in np.unique(text):
        rows = np.flatnonzero(text == one)
        taken = [
            row for row in rows[np.argsort(-probability[rows], kind="stable")][:top] if probability[row] >= threshold
        ]
        hits, number = hits + int(relevant[taken].sum()), number + len(taken)
    return hits / number, hits / total, 2 * hits / (number + total)


@pytest.mark.parametrize("aim", ["f1", "precision=0.8", "recall=0.6", "recall=1"])
@pytest.mark.parametrize("seed", range(4))
def test_assignment_is_the_best_of_all(seed: int, aim: str) -> None:
    rng = np.random.default_rng(seed)
    text = np.sort(rng.integers(0, 12, 90))
    probability = rng.random(90).round(1)
    relevant = rng.random(90) < probability**2
    total = int(relevant.sum()) + 3
    found = choose_assignment(probability, relevant, text, total, parse_aim(aim))
    figures = assigned_by_hand(probability, relevant, text, total, found.threshold, found.top)
    assert (found.precision, found.recall, found.f1) == pytest.approx(figures)
    every = [
        assigned_by_hand(probability, relevant, text, total, threshold, top)
        for threshold in np.unique(probability)
        for top in range(1, 20)
    ]
    if aim == "f1":
        assert found.reached and found.f1 == pytest.approx(max(figures[2] for figures in every))
        return
    wanted, other = (0, 1) if aim.startswith("precision") else (1, 0)
    reaching = [figures[other] for figures in every if figures[wanted] >= parse_aim(aim).least]
    assert found.reached == bool(reaching)
    if reaching:
        assert figures[other] == pytest.approx(max(reaching))
    else:
        assert figures[wanted] == pytest.approx(max(figures[wanted] for figures in every))


def test_rows_of_texts_may_come_in_any_order() -> None:
    rng = np.random.default_rng(9)
    text, probability = rng.integers(0, 30, 300), rng.permutation(300) / 300
    relevant = rng.random(300) < probability
    order = rng.permutation(300)
    ours = choose_assignment(probability, relevant, text, 200, parse_aim("f1"))
    assert ours == choose_assignment(probability[order], relevant[order], text[order], 200, parse_aim("f1"))


@pytest.mark.parametrize("text", ["f2", "f1=0.5", "precision", "recall=0", "recall=1.1", "precision=x"])
def test_unknown_aims_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected f1, precision=P or recall=R"):
        parse_aim(text)


@pytest.mark.parametrize("module", [calibration, assignment])
def test_examples_in_the_source(module) -> None:
    failed, tried = doctest.testmod(module)
    assert tried and not failed
