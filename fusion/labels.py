"""What is known about labels before any ranking: their groups, propensities, and the figures of a dataset.

Propensities: how likely a label that applies to a text was also given to it. Rare labels are missed more often.

H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation, tagging, ranking & other missing
label applications. KDD 2016.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from fusion.errors import ConfigError
from fusion.types import Array, Floats

TAIL, HEAD, ALL = "tail", "head", "all"


def head_size(labels: int, share: float = 0.2) -> int:
    """The number of head labels by the Pareto rule: ceil(share * labels), in exact arithmetic."""
    return math.ceil(Fraction(str(share)) * labels)


def pareto_groups(label_ids: Array, frequencies: Array, share: float = 0.2) -> Array:
    """`head` for the most frequent labels (ties by label id ascending), `tail` for the others."""
    order = np.lexsort((label_ids, -np.asarray(frequencies)))
    groups = np.full(len(label_ids), TAIL, dtype=object)
    groups[order[: head_size(len(label_ids), share)]] = HEAD
    return groups


@dataclass(frozen=True)
class Bounds:
    """A label group by how many training texts carry a label: from `least` to `most`, which None leaves open."""

    group: str
    least: int
    most: int | None

    @property
    def texts(self) -> str:
        """`50..`, `1..49` or `0`."""
        if self.most == self.least:
            return str(self.least)
        return f"{self.least}..{'' if self.most is None else self.most}"

    def __str__(self) -> str:
        return f"{self.group}: {self.texts}"


_BOUNDS = re.compile(r"([0-9]+)(?:(\.\.)([0-9]*))?")


def parse_bounds(groups: Mapping[str, str | int]) -> tuple[Bounds, ...]:
    """Label groups such as `{frequent: 50.., few: 1..49, zero: 0}`, in the order given. Every number of texts from 0 on
    is in exactly one of them."""
    parsed = tuple(_parse_bounds(group, bounds) for group, bounds in groups.items())
    names = [bounds.group.casefold() for bounds in parsed]
    for bounds in parsed:
        if not bounds.group or bounds.group != bounds.group.strip():
            raise ConfigError(f"label group {bounds.group!r}: a name must not be empty, or begin or end with a space")
        if not bounds.group.isprintable():
            raise ConfigError(f"label group {bounds.group!r}: a name must not hold control characters or line breaks")
        if bounds.group == ALL:
            raise ConfigError(f"label group {ALL!r}: the name is that of all labels together; choose another one")
        if names.count(bounds.group.casefold()) > 1:
            raise ConfigError(f"label group {bounds.group!r}: the name differs from another one by capitals alone")
    ascending = sorted(parsed, key=lambda bounds: bounds.least)
    if not ascending:
        raise ConfigError("label groups by bounds: there are none; write them as {frequent: 50.., few: 1..49, zero: 0}")
    if ascending[0].least > 0:
        below = Bounds("", 0, ascending[0].least - 1).texts
        raise ConfigError(
            f"label groups by bounds: no group has labels of {below} texts; '{ascending[0]}' is the lowest"
        )
    for lower, upper in pairwise(ascending):
        if lower.most is None or lower.most >= upper.least:
            raise ConfigError(f"label groups by bounds: '{lower}' and '{upper}' overlap at {upper.least} texts")
        if lower.most + 1 < upper.least:
            gap = Bounds("", lower.most + 1, upper.least - 1).texts
            raise ConfigError(f"label groups by bounds: no group has labels of {gap} texts ('{lower}', '{upper}')")
    if ascending[-1].most is not None:
        above = f"'{ascending[-1].group}: {ascending[-1].least}..'"
        raise ConfigError(
            f"label groups by bounds: no group has labels of more than {ascending[-1].most} texts: {above}?"
        )
    return parsed


def _parse_bounds(group: str, bounds: str | int) -> Bounds:
    match = _BOUNDS.fullmatch(str(bounds).replace(" ", ""))
    if match is None or isinstance(bounds, bool):
        raise ConfigError(f"label group {group!r}: {bounds!r} is not a range; write 50.. or 1..49, or 0 for one number")
    least = int(match[1])
    most = least if match[2] is None else int(match[3]) if match[3] else None
    if most is not None and most < least:
        raise ConfigError(f"label group {group!r}: {bounds!r} ends below its beginning")
    return Bounds(str(group), least, most)


def bounded_groups(frequencies: Array, groups: Sequence[Bounds]) -> Array:
    """The group of each label, from the number of training texts that carry it."""
    ascending = sorted(groups, key=lambda bounds: bounds.least)
    names = np.array([bounds.group for bounds in ascending], dtype=object)
    least = [bounds.least for bounds in ascending]
    return np.asarray(names[np.searchsorted(least, np.asarray(frequencies), side="right") - 1])


def frequency_bands(label_ids: Array, frequencies: Array, bands: int = 10) -> Array:
    """The band of each label, from 0 for the rarest labels to bands - 1; bands of as good as equal size."""
    order = np.lexsort((-np.asarray(label_ids), frequencies))
    band = np.empty(len(order), np.int8)
    band[order] = np.arange(len(order)) * bands // max(len(order), 1)
    return band


PROPENSITY_MODELS = {"standard": (0.55, 1.5), "wikipedia": (0.5, 0.4), "amazon": (0.6, 2.6)}
"""A and B as the paper gives them: for most datasets, for Wikipedia's and for Amazon's."""


def inverse_propensities(frequencies: Array, texts: int, a: float, b: float) -> Floats:
    """1 / p = 1 + C exp(-A ln(N_l + B)), where C = (ln N - 1) (B + 1)^A, of labels with N_l of N training texts."""
    c = (np.log(texts) - 1) * (b + 1) ** a
    return np.asarray(1 + c * np.exp(-a * np.log(np.asarray(frequencies, np.float64) + b)), np.float64)


@dataclass(frozen=True)
class DatasetStatistics:
    """The size of a dataset, and its pairs (a text and one of its labels) by label group."""

    texts: int
    labels: int
    head_labels: int
    head_pairs: int
    tail_pairs: int
    folds: int

    @classmethod
    def of(cls, texts: int, frequencies: Array, groups: Array, folds: int) -> DatasetStatistics:
        """From the number of texts that carry each label."""
        head = np.asarray(groups) == HEAD
        pairs = np.asarray(frequencies, np.int64)
        return cls(texts, len(pairs), int(head.sum()), int(pairs[head].sum()), int(pairs[~head].sum()), folds)

    @property
    def pairs(self) -> int:
        return self.head_pairs + self.tail_pairs

    @property
    def head_per_text(self) -> float:
        """Head pairs / N."""
        return self.head_pairs / self.texts if self.texts else 0.0

    @property
    def tail_per_text(self) -> float:
        """Tail pairs / N."""
        return self.tail_pairs / self.texts if self.texts else 0.0

    @property
    def texts_per_label(self) -> float:
        """Training texts per label: pairs * (1 - 1/folds) / L, that is 0.8 of the pairs with five folds."""
        return self.pairs * (self.folds - 1) / self.folds / self.labels if self.labels else 0.0
