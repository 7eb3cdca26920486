"""Whether two cells differ: paired t-tests, a sign test of counts, Holm's correction, and who wins.

Student's paired t over n differences d: t = mean(d) / (s / sqrt(n)), with n - 1 degrees of freedom. The sign test of
counts asks whether fair coins, one per text, would move the sum of the texts' differences as far (Fisher 1935). Holm
(1979) keeps the chance of any false rejection among m tests below alpha.

Two results over the same texts, compared by sign blocks, without any text's figures.

Texts are hashed by id into sign blocks, so that a text is in the same block of both results. With d_b the change of a
block's sum and n_b its texts, the mean change is m = sum(d_b) / sum(n_b). Its interval takes blocks as clusters of
texts: the variance of m is B / (B - 1) * sum((d_b - m n_b)^2) / sum(n_b)^2 over B blocks (the ratio estimator, Cochran
1977), with B - 1 degrees of freedom; with one text per block that is the paired t interval. p comes from random signs
of whole blocks (see random_signs).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from scipy.special import ndtri, stdtr, stdtrit

from fusion.compiled import compiled
from fusion.statistics.signs import randomization_p
from fusion.types import Array, Floats, Ints

Key = TypeVar("Key", bound=Hashable)
EXACT_SUM = 300
"""Differences of texts that add up to more, signs aside, have a sum that is as good as normal under random signs."""


class Paired(NamedTuple):
    """The mean of paired differences, with a two-sided t-test against zero and a 95% interval.

    `effect` is Cohen's d for pairs: the mean over the standard deviation of the differences. Where all differences are
    the same, there is no spread to judge by: p is 1 if they are all zero, and 0 otherwise.
    """

    pairs: int
    difference: float
    deviation: float
    statistic: float
    p: float
    low: float
    high: float
    effect: float


class ManyPaired(NamedTuple):
    """Many such tests over the same number of pairs."""

    pairs: int
    difference: Floats
    deviation: Floats
    statistic: Floats
    p: Floats
    low: Floats
    high: Floats
    effect: Floats


def paired_t(differences: Sequence[float]) -> Paired:
    """The test over differences at hand, such as those of folds."""
    values = np.asarray(differences, dtype=np.float64)
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return _paired(len(values), float(values.mean()), deviation)


def paired_t_of_sums(pairs: int, total: int, squares: int, unit: float) -> Paired:
    """The test over differences known by their sum and their sum of squares, whole numbers of `unit` (and `unit`^2).

    The difference of two nearly equal products is taken in whole numbers, hence exact.
    """
    scaled_variance = pairs * squares - total * total
    deviation = unit * math.sqrt(scaled_variance / (pairs * (pairs - 1))) if pairs > 1 else math.nan
    return _paired(pairs, unit * total / pairs, deviation)


def paired_t_of_many_sums(pairs: int, total: Ints, squares: Ints, unit: float) -> ManyPaired:
    """The same test for many sums over the same number of pairs, with the same results to the bit."""
    if pairs < 2:
        unknown: Floats = np.full(len(total), math.nan)
        return ManyPaired(pairs, unit * total / pairs if pairs else unknown, *[unknown] * 6)
    # Python's whole numbers have no end, and their ratio is exactly rounded.
    exact_total, exact_squares = total.astype(object), squares.astype(object)
    variance = (pairs * exact_squares - exact_total * exact_total) / (pairs * (pairs - 1))
    mean, deviation = unit * total / pairs, unit * np.sqrt(variance.astype(np.float64))
    alike = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-3)
    same = np.abs(mean) <= 1e-12
    endless = np.where(same, 0.0, np.copysign(math.inf, mean))
    spread = np.where(alike, 1.0, deviation)
    error = spread / math.sqrt(pairs)
    statistic = mean / error
    p = np.where(alike, same, 2 * stdtr(pairs - 1, -np.abs(statistic)))
    reach = np.where(alike, 0.0, error * _quantile(pairs - 1))
    effect = np.where(alike, endless, mean / spread)
    statistic = np.where(alike, endless, statistic)
    return ManyPaired(
        pairs=pairs,
        difference=mean,
        deviation=np.where(alike, 0.0, deviation),
        statistic=statistic,
        p=p,
        low=mean - reach,
        high=mean + reach,
        effect=effect,
    )


def _paired(pairs: int, mean: float, deviation: float) -> Paired:
    if pairs < 2:
        return Paired(pairs, mean, *[math.nan] * 6)
    # Equal values differ by rounding errors after a subtraction; that is no spread.
    if deviation <= 1e-12 * max(abs(mean), 1e-3):
        same = abs(mean) <= 1e-12
        endless = 0.0 if same else math.copysign(math.inf, mean)
        return Paired(
            pairs=pairs,
            difference=mean,
            deviation=0.0,
            statistic=endless,
            p=float(same),
            low=mean,
            high=mean,
            effect=endless,
        )
    error = deviation / math.sqrt(pairs)
    statistic = mean / error
    p = 2 * float(stdtr(pairs - 1, -abs(statistic)))
    reach = error * _quantile(pairs - 1)
    return Paired(
        pairs=pairs,
        difference=mean,
        deviation=deviation,
        statistic=statistic,
        p=p,
        low=mean - reach,
        high=mean + reach,
        effect=mean / deviation,
    )


@lru_cache(maxsize=1000)
def _quantile(freedom: int) -> float:
    """Of Student's t at 0.975; thousands of comparisons share their number of texts."""
    return float(stdtrit(freedom, 0.975))


def sign_change_p(moves: Ints) -> Floats:
    """Two-sided p of sums of whole numbers under random signs, one sign per text.

    `moves[..., m]` counts the texts that differ by m + 1, in its second half those that differ by as much the other
    way. Where every text differs by 1 this is McNemar's exact test; texts that hold several pairs stay together. The
    distribution of the sum is computed exactly up to EXACT_SUM, and beyond it is as good as normal.
    """
    half = moves.shape[-1] // 2
    table = moves.reshape(-1, 2, half)
    p: Floats = np.empty(len(table))
    _sign_change_p(p, table[:, 0], table[:, 1], EXACT_SUM)
    return p.reshape(moves.shape[:-1])


@compiled
def _sign_change_p(p, up, down, largest):  # type: ignore[no-untyped-def]
    tests, sizes = up.shape
    chances, next_chances = np.zeros(2 * largest + 1), np.zeros(2 * largest + 1)
    for test in range(tests):
        reach, total, variance = 0, 0, 0.0
        for m in range(sizes):
            texts = up[test, m] + down[test, m]
            reach += (m + 1) * texts
            variance += (m + 1) ** 2 * texts
            total += (m + 1) * (up[test, m] - down[test, m])
        total = abs(total)
        if total == 0:
            p[test] = 1.0
            continue
        if reach > largest:
            # Sums go in steps of two.
            p[test] = min(1.0, math.erfc((total - 1) / math.sqrt(2 * variance)))
            continue
        chances[:] = 0
        chances[largest] = 1
        width = 0
        for m in range(sizes):
            size = m + 1
            for _ in range(up[test, m] + down[test, m]):
                next_chances[largest - width - size : largest + width + size + 1] = 0
                for at in range(largest - width, largest + width + 1):
                    next_chances[at - size] += chances[at] / 2
                    next_chances[at + size] += chances[at] / 2
                chances, next_chances = next_chances, chances
                width += size
        beyond = 0.0
        for at in range(largest + total, largest + width + 1):
            beyond += 2 * chances[at]
        p[test] = min(1.0, beyond)


def wilson_interval(hits: Ints, trials: Ints) -> tuple[Floats, Floats]:
    """The 95% interval of a share (Wilson 1927), which never leaves 0 to 1."""
    z = float(ndtri(0.975))
    share, weight = hits / trials, z * z / trials
    middle = (share + weight / 2) / (1 + weight)
    reach = np.sqrt(weight * (share * (1 - share) + weight / 4)) / (1 + weight)
    # At the ends the bound is 0 or 1 but for rounding errors.
    low = np.where(hits == 0, 0.0, np.maximum(middle - reach, 0))
    high = np.where(hits == trials, 1.0, np.minimum(middle + reach, 1))
    return low, high


def holm(p: Mapping[Key, float]) -> dict[Key, float]:
    """Step-down corrected p-values: the i-th smallest of m times m - i + 1, never falling."""
    corrected: dict[Key, float] = {}
    largest = 0.0
    for i, key in enumerate(sorted(p, key=lambda key: p[key])):
        largest = max(largest, min(1.0, (len(p) - i) * p[key]))
        corrected[key] = largest
    return {key: corrected[key] for key in p}


def best_of(means: Mapping[Key, float]) -> Key:
    """The key of the greatest mean; of equal ones, the first."""
    return max(means, key=lambda key: means[key])


def winners(p_against_best: Mapping[Key, float | None], best: Key, alpha: float = 0.05) -> set[Key]:
    """The best, and those that are not significantly different from it. Without a test, only the best."""
    return {best} | {key for key, p in p_against_best.items() if p is not None and p >= alpha}


@dataclass(frozen=True)
class RankedGroups(Generic[Key]):
    """What a critical-difference diagram shows (Demsar 2006): mean ranks, best first, and groups of equals."""

    mean_ranks: dict[Key, float]
    groups: list[tuple[Key, ...]]
    """Neighbours in this order of which no two differ; each as long as possible, two members at least."""


def ranked_groups(
    values: Mapping[Key, Sequence[float]], p: Mapping[tuple[Key, Key], float] | None = None, alpha: float = 0.05
) -> RankedGroups[Key]:
    """Mean ranks over the folds' values, and groups by the Holm-corrected tests of all pairs: those given, in either
    order, or paired t-tests over the folds. A pair without a test counts as equal."""
    keys = list(values)
    table = np.array([values[key] for key in keys], dtype=np.float64)
    above, level = table > table[:, None], table == table[:, None]
    # Equal values share the mean of their ranks.
    means = (above.sum(axis=1) + (level.sum(axis=1) + 1) / 2).mean(axis=1)
    places = sorted(range(len(keys)), key=lambda n: (means[n], -table[n].mean()))
    order = [keys[n] for n in places]
    if p is None:
        p = {
            (one, other): paired_t(np.subtract(values[one], values[other]).tolist()).p
            for one, other in combinations(order, 2)
        }
    corrected = holm({pair: value for pair, value in p.items() if not math.isnan(value)})
    apart = {frozenset(pair) for pair, value in corrected.items() if value < alpha}
    groups: list[tuple[Key, ...]] = []
    reached = 0
    for begin in range(len(order)):
        end = begin + 1
        while end < len(order) and not any(frozenset((order[end], key)) in apart for key in order[begin:end]):
            end += 1
        if end > max(reached, begin + 1):
            groups.append(tuple(order[begin:end]))
        reached = max(reached, end)
    return RankedGroups({keys[n]: float(means[n]) for n in places}, groups)


class BlockChange(NamedTuple):
    """The mean change per text with its 95% interval, and p of random signs."""

    difference: float
    low: float
    high: float
    p: float


def same_texts(texts: tuple[Ints, Ints], prints: tuple[Ints, Ints]) -> Array:
    """The blocks that hold the same texts with the same judgements in both results, by count and fingerprint; blocks
    without texts say nothing."""
    return np.asarray((texts[0] > 0) & (texts[0] == texts[1]) & (prints[0] == prints[1]))


def block_changes(before: Array, after: Array, texts: Ints, unit: float, vectors: int, seed: int) -> list[BlockChange]:
    """The change of each column, from the sums [block, column] of both results, whole numbers of `unit`, and the
    number of texts of each block."""
    change = np.asarray(after - before, np.float64)
    total = texts.sum()
    difference = change.sum(axis=0) / total
    reach = _reach(change - np.outer(texts, difference), float(total))
    # A column of zeros: what is tested is the change against no change.
    columns = np.column_stack([change, np.zeros(len(change))])
    p = randomization_p(columns[None], vectors, seed)[0, :-1, -1]
    return [
        BlockChange(unit * mean, unit * (mean - width), unit * (mean + width), float(chance))
        for mean, width, chance in zip(difference.tolist(), reach.tolist(), p.tolist(), strict=True)
    ]


def _reach(residuals: Floats, total: float) -> Floats:
    """Half the width of the 95% interval; NaN for fewer than two blocks."""
    blocks, columns = residuals.shape
    if blocks < 2:
        return np.full(columns, math.nan)
    error = np.sqrt(blocks / (blocks - 1) * (residuals**2).sum(axis=0)) / total
    return np.asarray(error * stdtrit(blocks - 1, 0.975))


class MeanStd(NamedTuple):
    """The mean over the folds and the standard deviation (ddof = 1; NaN for one fold)."""

    mean: float
    std: float


def mean_std(values: Sequence[float]) -> MeanStd:
    if not values:
        return MeanStd(math.nan, math.nan)
    return MeanStd(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan)
