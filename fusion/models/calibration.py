"""Calibration: from scores to the probability that a label is relevant, and how far such probabilities are off.

Both calibrations are monotone, so that they change no order but where they make scores equal. Rows of equal score are
added up in one order before anything is fitted: the order of the rows does not matter.

>>> calibration = fit_isotonic(np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, True, False, True]))
>>> calibration.probabilities(np.array([0.0, 1.5, 2.5, 9.0])).tolist()
[0.0, 0.25, 0.5, 1.0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.errors import InputError
from fusion.kernel.arithmetic import exponentials
from fusion.types import Array, Floats, Ints, rounded

ENOUGH_FOR_ISOTONIC = 1_000
"""With fewer rows, a curve of two parameters is the safer one."""
BINS = 15
LEAST = 1e-9
"""The weight of a row without probability."""
SPLIT_SEED = 0
MOST_STEPS = 100
CLOSE = 1e-12
"""Newton's steps end when the gain they promise is below this share of the loss."""


@dataclass(frozen=True)
class Platt:
    """1 / (1 + exp(-(slope * score + intercept))); the slope is never negative.

    Platt, J. (1999). Probabilistic outputs for support vector machines and comparisons to regularized likelihood
    methods.
    """

    slope: float
    intercept: float

    def probabilities(self, scores: Floats) -> Floats:
        return 1 / (1 + exponentials(-(self.slope * scores + self.intercept)))

    def to_json(self) -> dict[str, Any]:
        return {"slope": self.slope, "intercept": self.intercept}


@dataclass(frozen=True)
class Isotonic:
    """Straight lines between knots, constant outside.

    Zadrozny, B., Elkan, C. (2002). Transforming classifier scores into accurate multiclass probability estimates.
    """

    scores: tuple[float, ...]
    """Ascending."""
    values: tuple[float, ...]
    """The probability at each of them, ascending."""

    def probabilities(self, scores: Floats) -> Floats:
        return np.asarray(np.interp(scores, self.scores, self.values), np.float64)

    def to_json(self) -> dict[str, Any]:
        return {"scores": list(self.scores), "values": list(self.values)}


Calibration = Platt | Isotonic


def calibration_from_json(described: Mapping[str, Any]) -> Calibration:
    """What `to_json` described. A curve that falls, or that leaves the numbers from 0 to 1, is refused."""
    if "slope" in described:
        platt = Platt(float(described["slope"]), float(described["intercept"]))
        if not (np.isfinite([platt.slope, platt.intercept]).all() and platt.slope >= 0):
            raise InputError(f"a calibration needs a slope of at least 0, not {platt.slope!r}")
        return platt
    curve = Isotonic(tuple(map(float, described["scores"])), tuple(map(float, described["values"])))
    scores, values = np.array(curve.scores), np.array(curve.values)
    rises = len(scores) == len(values) > 0 and (np.diff(scores) > 0).all() and (np.diff(values) >= 0).all()
    if not (rises and np.isfinite(scores).all() and values[0] >= 0 and values[-1] <= 1):
        raise InputError("a calibration needs ascending scores with as many ascending values from 0 to 1")
    return curve


def fit_calibration(scores: Floats, relevant: Array, weights: Floats | None = None) -> Calibration:
    """Isotonic where there are enough rows for it, Platt's curve otherwise."""
    fit = fit_isotonic if len(scores) >= ENOUGH_FOR_ISOTONIC else fit_platt
    return fit(scores, relevant, weights)


def fit_platt(scores: Floats, relevant: Array, weights: Floats | None = None) -> Platt:
    """The curve of the greatest likelihood, with Platt's targets instead of 1 and 0: (relevant + 1) / (relevant + 2)
    and 1 / (others + 2), which keep it finite where a score divides relevant labels from the others. Scores that say
    the opposite of what they should get the slope 0."""
    rows = _by_score(scores, relevant, weights)
    yes, no = float(rows.relevant.sum()), float((rows.weight - rows.relevant).sum())
    share = rows.relevant / rows.weight
    target = share * ((yes + 1) / (yes + 2)) + (1 - share) / (no + 2)
    mean = float(np.sum(rows.weight * rows.score) / np.sum(rows.weight))
    spread = float(np.sqrt(np.sum(rows.weight * (rows.score - mean) ** 2) / np.sum(rows.weight)))
    common = float(np.sum(rows.weight * target) / np.sum(rows.weight))
    level = float(np.log(common / (1 - common)))
    if spread <= 1e-9 * max(abs(mean), 1e-300):
        return Platt(0.0, rounded(level))
    slope, intercept = _newton((rows.score - mean) / spread, target, rows.weight, level)
    if slope <= 0:
        return Platt(0.0, rounded(level))
    return Platt(rounded(slope / spread), rounded(intercept - slope / spread * mean))


def fit_isotonic(scores: Floats, relevant: Array, weights: Floats | None = None) -> Isotonic:
    """The rising curve of least squared error, by pooling adjacent violators; knots at both ends of every level."""
    rows = _by_score(scores, relevant, weights)
    level = np.asarray(_pool_violators(rows.relevant, rows.weight))
    first, last = np.append(True, np.diff(level) > 0), np.append(np.diff(level) > 0, True)
    kept = first | last
    return Isotonic(tuple(rows.score[kept].tolist()), tuple(rounded(value) for value in level[kept].tolist()))


class Candidates(NamedTuple):
    """The candidates of judged texts: the label group of each by its place among the names, a score, and whether it is
    relevant."""

    text: Ints
    """By any numbers."""
    group: Array
    names: tuple[str, ...]
    score: Array
    relevant: Array

    def some(self, rows: Array) -> Candidates:
        text, group, score, relevant = (values[rows] for values in (self.text, self.group, self.score, self.relevant))
        return self._replace(text=text, group=group, score=score, relevant=relevant)


def group_calibrations(candidates: Candidates) -> dict[str, Calibration]:
    """A calibration for each label group that has candidates."""
    inside = {name: candidates.group == number for number, name in enumerate(candidates.names)}
    return {
        name: fit_calibration(candidates.score[rows].astype(np.float64), candidates.relevant[rows])
        for name, rows in inside.items()
        if rows.any()
    }


def group_probabilities(
    score: Array, group: Array, names: Sequence[str], calibrations: Mapping[str, Calibration]
) -> Floats:
    """The probability of each candidate, by the calibration of its label group; NaN where the group has none."""
    values = np.full(len(score), np.nan)
    for number, name in enumerate(names):
        if name in calibrations:
            inside = group == number
            values[inside] = calibrations[name].probabilities(score[inside].astype(np.float64))
    return values


def held_out_probabilities(candidates: Candidates) -> Floats:
    """The probability of each candidate by the calibrations of the other half of the texts; NaN where these have no
    candidate of its label group."""
    texts = np.random.default_rng(SPLIT_SEED).permutation(np.unique(candidates.text))
    first = np.isin(candidates.text, texts[::2])
    values = np.empty(len(candidates.score))
    for rows in (first, ~first):
        _, group, names, score, _ = candidates.some(rows)
        values[rows] = group_probabilities(score, group, names, group_calibrations(candidates.some(~rows)))
    return values


def scaled_scores(candidates: Candidates) -> Floats:
    """Scores brought to 0 up to 1 within each label group: what probabilities would be without a calibration."""
    values = np.zeros(len(candidates.score))
    for number in range(len(candidates.names)):
        inside = candidates.group == number
        score = candidates.score[inside].astype(np.float64)
        if len(score) and np.ptp(score) > 0:
            values[inside] = (score - score.min()) / np.ptp(score)
    return values


class ReliabilityBin(NamedTuple):
    """Rows with similar probabilities."""

    rows: int
    weight: float
    lowest: float
    highest: float
    probability: float
    """The mean of the probabilities."""
    frequency: float
    """The share of the rows that are relevant."""


def reliability(
    probability: Floats, relevant: Array, weights: Floats | None = None, bins: int = BINS
) -> list[ReliabilityBin]:
    """Rows by ascending probability in bins of equal mass. Rows of equal probability share a bin, that of their middle,
    so that bins may be missing or larger; no bin is empty."""
    rows = _by_score(probability, relevant, weights)
    before = np.cumsum(rows.weight) - rows.weight
    middle = (before + rows.weight / 2) / rows.weight.sum()
    number = np.minimum((middle * bins).astype(np.int64), bins - 1)
    first = np.flatnonzero(np.append(True, np.diff(number) > 0))
    last = np.append(first[1:], len(number))
    table = []
    for begin, end in zip(first.tolist(), last.tolist(), strict=True):
        inside = slice(begin, end)
        weight = float(rows.weight[inside].sum())
        mean = float(np.sum(rows.weight[inside] * rows.score[inside])) / weight
        count = int(rows.rows[inside].sum())
        ends = float(rows.score[begin]), float(rows.score[end - 1])
        table.append(ReliabilityBin(count, weight, *ends, mean, float(rows.relevant[inside].sum()) / weight))
    return table


def reliability_of_expected(probability: Floats, relevant: Array) -> list[ReliabilityBin]:
    """Bins that expect as many relevant labels each: rows count by their probability. In bins of as many rows, all but
    the last one or two hold labels that are hardly ever relevant."""
    return reliability(probability, relevant, np.maximum(probability, LEAST))


def calibration_error(table: list[ReliabilityBin]) -> float:
    """The expected calibration error: the mean difference between probability and frequency, weighted by mass."""
    mass = sum(line.weight for line in table)
    return sum(line.weight * abs(line.probability - line.frequency) for line in table) / mass


class _Rows(NamedTuple):
    """Rows of equal score added up, by ascending score."""

    score: Floats
    weight: Floats
    relevant: Floats
    """The weight of the relevant ones."""
    rows: Array


def _by_score(scores: Floats, relevant: Array, weights: Floats | None) -> _Rows:
    scores, relevant = np.asarray(scores, np.float64), np.asarray(relevant, np.bool_)
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, np.float64)
    if not len(scores) == len(relevant) == len(weights):
        raise InputError(f"{len(scores)} scores, {len(relevant)} judgements and {len(weights)} weights: not as many")
    if not (np.isfinite(scores).all() and np.isfinite(weights).all() and (weights >= 0).all()):
        raise InputError("a calibration is fitted on finite scores and on weights of at least 0")
    kept = weights > 0
    if not kept.any():
        raise InputError("a calibration needs at least one row with a weight")
    scores, relevant, weights = scores[kept], relevant[kept], weights[kept]
    # Sums do not depend on the order of the rows, but for which of two zeros comes first.
    order = np.lexsort((weights, relevant, scores))
    scores, relevant, weights = scores[order] + 0.0, relevant[order], weights[order]
    first = np.flatnonzero(np.append(True, np.diff(scores) > 0))
    return _Rows(
        scores[first],
        np.add.reduceat(weights, first),
        np.add.reduceat(np.where(relevant, weights, 0.0), first),
        np.diff(np.append(first, len(scores))),
    )


def _newton(score: Floats, target: Floats, weight: Floats, level: float) -> tuple[float, float]:
    """Slope and intercept, by Newton's steps that are halved until they gain something."""
    slope, intercept = 0.0, level
    loss = _loss(slope * score + intercept, target, weight)
    for _ in range(MOST_STEPS):
        probability = 1 / (1 + exponentials(-(slope * score + intercept)))
        error, bend = weight * (probability - target), weight * probability * (1 - probability)
        g0, g1 = float(np.sum(error * score)), float(np.sum(error))
        h00, h01 = float(np.sum(bend * score * score)) + 1e-12, float(np.sum(bend * score))
        h11 = float(np.sum(bend)) + 1e-12
        determinant = h00 * h11 - h01 * h01
        if determinant <= 0:
            break
        step0, step1 = (h11 * g0 - h01 * g1) / determinant, (h00 * g1 - h01 * g0) / determinant
        length = 1.0
        while length > 1e-10:
            tried = slope - length * step0, intercept - length * step1
            new_loss = _loss(tried[0] * score + tried[1], target, weight)
            if new_loss <= loss:
                break
            length /= 2
        else:
            break
        (slope, intercept), loss = tried, new_loss
        if g0 * step0 + g1 * step1 < CLOSE * loss:
            break
    return slope, intercept


def _loss(score: Floats, target: Floats, weight: Floats) -> float:
    """The negative logarithm of the likelihood."""
    return float(np.sum(weight * (np.log1p(exponentials(-np.abs(score))) + np.maximum(score, 0) - target * score)))


@compiled
def _pool_violators(relevant, weight):  # type: ignore[no-untyped-def]
    """The value of every row on the rising curve. Neighbours of equal value are one level, too."""
    size = weight.size
    of_level, mass, end = np.empty(size), np.empty(size), np.empty(size, np.int64)
    levels = 0
    for n in range(size):
        of_level[levels], mass[levels], end[levels] = relevant[n], weight[n], n + 1
        levels += 1
        # Values are compared by their cross products: no rounding of a quotient decides.
        while levels > 1 and of_level[levels - 2] * mass[levels - 1] >= of_level[levels - 1] * mass[levels - 2]:
            of_level[levels - 2] += of_level[levels - 1]
            mass[levels - 2] += mass[levels - 1]
            end[levels - 2] = end[levels - 1]
            levels -= 1
    values = np.empty(size)
    first = 0
    for level in range(levels):
        values[first : end[level]] = of_level[level] / mass[level]
        first = end[level]
    return values
