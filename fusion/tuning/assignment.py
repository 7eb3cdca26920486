"""How many labels a text is assigned: the smallest probability and the largest number, chosen for an objective.

Candidates of a text are taken by descending probability, and those of equal probability in the order of the rows.
Figures are summed over texts and labels (micro): precision = hits / assigned, recall = hits / relevant labels, those
that no list holds included, and F1 is their harmonic mean.

>>> probability, relevant = np.array([0.9, 0.6, 0.2, 0.7]), np.array([True, True, False, False])
>>> chosen = choose_assignment(probability, relevant, np.array([0, 0, 0, 1]), 2, parse_aim("f1"))
>>> chosen.threshold, chosen.top, chosen.precision, chosen.recall
(0.6, 2, 0.6666666666666666, 1.0)
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

import numpy as np

from fusion.errors import ConfigError, InputError
from fusion.types import Array, Floats, Ints

MOST_LABELS = 64
"""The largest number of labels per text that is tried."""
_AIM = re.compile(r"\s*(f1|precision|recall)\s*(?:=\s*(\d+\.?\d*|\.\d+))?\s*")


class Aim(NamedTuple):
    """What an assignment is chosen for: the greatest F1, or a precision (recall) of at least `least` with the greatest
    recall (precision)."""

    figure: Literal["f1", "precision", "recall"]
    least: float = 0.0

    def __str__(self) -> str:
        return self.figure if self.figure == "f1" else f"{self.figure}={self.least:g}"


class Assignment(NamedTuple):
    """The labels of a text with at least the threshold as probability, and no more than `top` of them; with what this
    gave where it was chosen."""

    threshold: float
    top: int
    precision: float
    recall: float
    f1: float
    assigned: int
    """The number of labels, over all texts."""
    reached: bool
    """Whether the figure that the aim asks for was reached; if not, this comes closest."""


def parse_aim(text: str) -> Aim:
    """`f1`, `precision=0.8` or `recall=0.9`."""
    match = _AIM.fullmatch(text)
    least = float(match[2]) if match and match[2] else None
    if match is None or (match[1] == "f1") != (least is None) or (least is not None and not 0 < least <= 1):
        raise ConfigError(f"objective {text!r}: expected f1, precision=P or recall=R with P and R up to 1")
    return Aim(match[1], least or 0.0)  # type: ignore[arg-type]


def choose_assignment(probability: Floats, relevant: Array, text: Ints, relevant_labels: int, aim: Aim) -> Assignment:
    """Chosen on the candidates of validation texts. `text`: the text of each candidate, by any numbers;
    `relevant_labels`: how many labels the texts have in all, also where no list holds them.
    Of equal assignments, the one with fewer labels, then the smaller `top`."""
    rows = len(probability)
    if not rows or not len(relevant) == len(text) == rows:
        raise InputError("an assignment is chosen on at least one candidate, with a judgement and a text for each")
    # The greatest probability first; of equal ones, the order of the rows.
    order = np.argsort(-np.asarray(probability, np.float64), kind="stable")
    value, place = np.asarray(probability, np.float64)[order], _places(np.asarray(text)[order])
    hit = np.asarray(relevant)[order]
    best: tuple[tuple[float, ...], Assignment] | None = None
    for top in range(1, min(MOST_LABELS, int(place.max()) + 1) + 1):
        taken = place < top
        of_top = value[taken]
        # All candidates of one probability are assigned, or none.
        last = np.flatnonzero(np.append(of_top[1:] < of_top[:-1], True))
        found = _best(np.cumsum(hit[taken])[last], last + 1, max(relevant_labels, 1e-300), aim)
        made = Assignment(
            float(of_top[last[found.place]]), top, *found.figures, int(last[found.place] + 1), found.reached
        )
        key = (*found.key, -made.assigned, -top)
        if best is None or key > best[0]:
            best = key, made
    assert best is not None
    return best[1]


class _Best(NamedTuple):
    place: int
    key: tuple[float, ...]
    figures: tuple[float, float, float]
    reached: bool


def _best(hits: Ints, assigned: Ints, relevant_labels: float, aim: Aim) -> _Best:
    """The best threshold, by the place of its last candidate."""
    precision, recall = hits / assigned, np.minimum(hits / relevant_labels, 1.0)
    f1 = 2 * hits / (assigned + relevant_labels)
    wanted, other = {"f1": (f1, f1), "precision": (precision, recall), "recall": (recall, precision)}[aim.figure]
    reached = wanted >= aim.least
    # What reaches the aim comes first, and of that the best of the other figure; otherwise what comes closest.
    value = np.where(reached, other, wanted) if reached.any() else wanted
    allowed = reached if reached.any() else np.ones(len(hits), np.bool_)
    place = int(np.flatnonzero(allowed)[np.argmax(value[allowed])])
    key = (float(reached[place]), float(value[place]))
    return _Best(place, key, (float(precision[place]), float(recall[place]), float(f1[place])), bool(reached[place]))


def _places(text: Array) -> Ints:
    """The 0-based place of every row among those of its text."""
    order = np.argsort(text, kind="stable")
    ordered = text[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    place = np.empty(len(text), np.int64)
    place[order] = np.arange(len(text)) - np.repeat(first, np.diff(np.append(first, len(text))))
    return place
