"""P, R and F1 of sets of labels that were assigned to texts, averaged over texts, over pairs, or over labels.

As scikit-learn with `zero_division=0`, except that the mean over labels is over those that some text carries: a label
that is only assigned lowers the other figures, but is no label of these texts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fusion.types import Floats, Ints


class Pairs(NamedTuple):
    """Pairs of a text and a label, each given once, by numbers from 0 on."""

    text: Ints
    label: Ints


class Averages(NamedTuple):
    """One kind of average."""

    precision: float
    recall: float
    f1: float


class AssignedFigures(NamedTuple):
    """`sample`: the mean over texts, where an empty set has P 0; `micro`: over all pairs; `macro`: the mean over labels
    that some text carries."""

    sample: Averages
    micro: Averages
    macro: Averages


def score_assigned(assigned: Pairs, relevant: Pairs, texts: int) -> AssignedFigures:
    """The figures of the labels assigned to `texts` texts, of which some may have no labels, or be assigned none. They
    are exact sums, so the order of the pairs does not matter. Without texts or labels they are 0."""
    labels = 1 + int(max(assigned.label.max(initial=-1), relevant.label.max(initial=-1)))
    keys, relevant_keys = (pairs.text.astype(np.int64) * labels + pairs.label for pairs in (assigned, relevant))
    hit = np.isin(keys, relevant_keys)
    of_texts = [np.bincount(chosen, minlength=texts) for chosen in (assigned.text[hit], assigned.text, relevant.text)]
    of_labels = [
        np.bincount(chosen, minlength=labels) for chosen in (assigned.label[hit], assigned.label, relevant.label)
    ]
    carried = of_labels[2] > 0
    return AssignedFigures(
        _averages(*of_texts),
        _averages(*(counts.sum(keepdims=True) for counts in of_texts)),
        _averages(*(counts[carried] for counts in of_labels)),
    )


def _averages(hits: Ints, assigned: Ints, relevant: Ints) -> Averages:
    """The means of P, R and F1 over what the counts are of; 0 where a denominator is 0."""
    return Averages(
        _mean(hits / np.maximum(assigned, 1)),
        _mean(hits / np.maximum(relevant, 1)),
        _mean(2 * hits / np.maximum(assigned + relevant, 1)),
    )


def _mean(values: Floats) -> float:
    return math.fsum(values.tolist()) / len(values) if len(values) else 0.0
