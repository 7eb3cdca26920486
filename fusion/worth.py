"""What a metric sees of the texts, and what it answers: what the hits of each text are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.types import Floats, Int32s, Ints

Counting = Literal["each", "first", "running"]
Ties = Literal["ascending", "descending", "expected", "ranx"]
GradeGain = Literal["linear", "exponential"]


class Rules(NamedTuple):
    """How judgements and equal scores are read."""

    threshold: float = 1
    """Labels of this grade or a higher one are relevant."""
    gain: GradeGain = "linear"
    ties: Ties = "ascending"
    graded: bool = False
    """Whether labels come with grades; if not, all labels of a text are relevant and count the same."""

    def gain_of(self, grades: Floats) -> Floats:
        """What labels of these grades count in a graded metric. Negative grades count 0."""
        positive = np.maximum(grades, 0.0)
        return positive if self.gain == "linear" else np.exp2(positive) - 1


MANY = 64
"""Labels of a text up to which an insertion sort is the fastest."""
PLAIN_RULES = Rules()
"""Labels without grades, and ties by label id."""


class Worth(NamedTuple):
    """A text's figure is the sum over its hits, divided by `over`; 0 where that is 0.

    A hit at rank r adds `by_rank[r - 1]` times its gain, and nothing at a rank beyond. `counts` says which hits do:
    `each` of them, only the `first` one of a text, or each times the `running` number of hits down to it.
    """

    by_rank: Floats
    over: Floats | Ints | float
    counts: Counting = "each"
    depth: Ints | None = None
    """The last rank that counts in each text, where that is not the same for all."""
    terms: Floats | None = None
    """Instead of all that, what every hit adds (hits x columns)."""
    listed: int = 0
    """The labels that a column lists down to this rank are added to `over`, one each."""


class Gains(NamedTuple):
    """The gains of the labels of every text, greatest first: those of text t are value[first[t]:first[t + 1]]."""

    first: Ints
    value: Floats


@dataclass
class JudgedTexts:
    """What is known of some texts under one ideal: that all labels of the text make the best ranking, or those of the
    label group."""

    relevant: Ints
    """The number of relevant labels of each text."""
    gains: Gains | None = None
    """None: every relevant label counts one."""
    nonrelevant: Ints | None = None
    """The number of labels of each text that are judged and not relevant."""
    nonrelevant_above: Callable[[Ints], Floats] | None = None
    """From the most that count in each text to the share of these that stand above each hit (hits x columns): labels
    that are judged and not relevant. Over tied orders, the expected share."""

    def ideal(self, by_rank: Floats) -> Floats:
        """The sum over the hits of the best possible ranking of each text."""
        if self.gains is None:
            return np.append(0.0, np.cumsum(by_rank))[np.minimum(self.relevant, len(by_rank))]
        ideal: Floats = _ideal(self.gains.first, self.gains.value, by_rank)
        return ideal


def sorted_gains(first: Ints, value: Floats) -> tuple[Gains, Ints]:
    """The gains of every text with the greatest first, and the order that makes them so."""
    order = _descending(first, value)
    return Gains(first, value[order]), order


def mean_above(above: Int32s, level: Int32s, most: Ints) -> Floats:
    """The mean of min(x, most) / most for x from `above` to `above + level`, each as likely as the others."""
    below = np.minimum(above, most)
    # The first `rising` numbers after `above` are not cut.
    rising = np.minimum(level, most - below)
    total = below + rising * below + rising * (rising + 1) / 2 + (level - rising) * most
    return np.asarray(total / ((level + 1) * most), np.float64)


@compiled
def _descending(first, value):  # type: ignore[no-untyped-def]
    order = np.arange(value.size)
    for t in range(first.size - 1):
        if first[t + 1] - first[t] > MANY:
            order[first[t] : first[t + 1]] = first[t] + np.argsort(-value[first[t] : first[t + 1]], kind="mergesort")
            continue
        for n in range(first[t] + 1, first[t + 1]):
            entry, place = order[n], n
            while place > first[t] and value[order[place - 1]] < value[entry]:
                order[place] = order[place - 1]
                place -= 1
            order[place] = entry
    return order


@compiled
def _ideal(first, value, by_rank):  # type: ignore[no-untyped-def]
    ideal = np.zeros(first.size - 1)
    for t in range(first.size - 1):
        for n in range(min(first[t + 1] - first[t], by_rank.size)):
            ideal[t] += value[first[t] + n] * by_rank[n]
    return ideal
