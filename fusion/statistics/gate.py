"""Whether tonight is worse than the baseline, and whether the data is still the same.

A watched figure is compared over the texts that both nights have: with d = tonight - baseline per text, the alarm
tests H0: mean(d) >= -tolerance, one-sided, t = (-mean(d) - tolerance) / (s / sqrt(n)). Where few texts are common, the
two nights are compared as independent samples (Welch 1947). Holm's correction over all watched figures keeps the
chance of any false alarm of a night below alpha. A drop beyond the tolerance over too few texts for a test is not
called a chance result: it is untested, which is for a person to decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, TypeVar

from scipy.special import stdtr, stdtrit

from fusion.statistics.significance import holm

Key = TypeVar("Key", bound=Hashable)
ENOUGH_COMMON = 0.5
"""The share of tonight's texts that must be common for a comparison text by text."""


class Sums(NamedTuple):
    """Numbers known by their count, sum and sum of squares."""

    texts: int
    total: float
    squares: float

    @property
    def mean(self) -> float:
        return self.total / self.texts if self.texts else math.nan

    @property
    def variance(self) -> float:
        """Unbiased; NaN for fewer than two numbers."""
        if self.texts < 2:
            return math.nan
        return max(self.squares - self.total * self.mean, 0.0) / (self.texts - 1)


class Change(NamedTuple):
    """A watched figure of two nights: the means that were compared, and the change as it was tested."""

    baseline: float
    tonight: float
    difference: float
    low: float
    high: float
    """The change, with a 95% interval: over the common texts if `paired`."""
    paired: bool
    texts: int
    """Texts that the change was tested on."""
    p: float
    """Of the drop being beyond the tolerance; NaN where there are too few texts."""
    new: int = 0
    gone: int = 0
    """Texts that only tonight has, and that only the baseline has."""
    tolerance: float = 0.0
    """How far the figure may fall."""
    other_folds: int = 0
    """Texts that are compared with themselves although another fold tested them then."""

    @property
    def untested(self) -> bool:
        """Whether the figure fell beyond the tolerance over too few texts to say how likely that is by chance."""
        return math.isnan(self.p) and self.difference < -self.tolerance


def change(baseline: Sums, tonight: Sums, common: Sums, tolerance: float, kept: Sums | None = None) -> Change:
    """Compare two nights. `common` adds up the differences of the texts that both have, `kept` the baseline's figures
    of those texts; without it, means are over all texts."""
    # A single text is compared with itself, although its change cannot be tested.
    paired = common.texts >= min(2, tonight.texts) and common.texts >= ENOUGH_COMMON * tonight.texts
    means = baseline.mean, tonight.mean
    if paired:
        difference, count = common.mean, common.texts
        error, freedom = math.sqrt(common.variance / common.texts), common.texts - 1.0
        means = (kept.mean, kept.mean + difference) if kept is not None else means
    else:
        difference, count = tonight.mean - baseline.mean, baseline.texts + tonight.texts
        error, freedom = _welch(baseline, tonight)
    if math.isnan(error):
        reach = p = math.nan
    else:
        reach = error * float(stdtrit(freedom, 0.975)) if error else 0.0
        beyond = -difference - tolerance
        # Without any variance there is nothing to test: the drop is beyond the tolerance or not.
        p = float(stdtr(freedom, -beyond / error)) if error else float(beyond <= 0)
    return Change(
        *means,
        difference,
        low=difference - reach,
        high=difference + reach,
        paired=paired,
        texts=count,
        p=p,
        new=tonight.texts - common.texts,
        gone=baseline.texts - common.texts,
        tolerance=tolerance,
    )


def _welch(a: Sums, b: Sums) -> tuple[float, float]:
    """The standard error of a difference of means, and its degrees of freedom."""
    if min(a.texts, b.texts) < 2:
        return math.nan, math.nan
    parts = a.variance / a.texts, b.variance / b.texts
    if not sum(parts):
        return 0.0, 1.0
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / (a.texts - 1) + parts[1] ** 2 / (b.texts - 1))
    return math.sqrt(sum(parts)), freedom


def alarms(changes: Mapping[Key, Change], alpha: float | Callable[[Key], float]) -> dict[Key, float]:
    """The figures whose drop is beyond the tolerance, with their corrected p-values.

    The correction is over all figures of the night. Where figures have levels of their own, the chance of any false
    alarm among those of one level is below that level.
    """
    level = alpha if callable(alpha) else lambda key: alpha
    tested = holm({key: change.p for key, change in changes.items() if not math.isnan(change.p)})
    return {key: p for key, p in tested.items() if p < level(key)}
