"""The metrics by their formulas, one text at a time: slow, plain, and written without a look at the code under test."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby, permutations, product

Label = int | str
Grades = Mapping[Label, float]


def ranked(scores: Mapping[Label, float]) -> list[Label]:
    """Score descending, then label id ascending."""
    return sorted(scores, key=lambda label: (-scores[label], label))


def tied_orders(scores: Mapping[Label, float]) -> Iterator[list[Label]]:
    """Every order that puts greater scores first."""
    groups = [list(same) for _, same in groupby(ranked(scores), key=lambda label: scores[label])]
    for orders in product(*(permutations(group) for group in groups)):
        yield [label for order in orders for label in order]


def figure(
    metric: str,
    k: int,
    ranking: Sequence[Label],
    relevant: Collection[Label],
    number: int,
    bad: Collection[Label] = (),
) -> float:
    """A binary metric: `number` of relevant labels make the ideal ranking; `bad` ones are judged and not relevant."""
    first = list(ranking[:k]) if k else list(ranking)
    hits = [place for place, label in enumerate(first, start=1) if label in relevant]
    if metric == "precision":
        return len(hits) / k
    if metric == "hit-rate":
        return float(bool(hits))
    if metric == "mrr":
        return 1 / hits[0] if hits else 0.0
    if metric == "sample-precision":
        return len(hits) / len(first) if first else 0.0
    if not number:
        return 0.0
    if metric == "sample-f1":
        return 2 * len(hits) / (len(first) + number)
    if metric == "rp":
        return len(hits) / min(k, number)
    if metric == "recall":
        return len(hits) / number
    if metric == "map":
        return sum(sum(other <= place for other in hits) / place for place in hits) / number
    if metric == "r-precision":
        return sum(place <= number for place in hits) / number
    if metric == "f1":
        precision, recall = len(hits) / k, len(hits) / number
        return 2 * precision * recall / (precision + recall) if hits else 0.0
    if metric == "ndcg":
        ideal = sum(1 / math.log2(1 + place) for place in range(1, min(k, number) + 1))
        return sum(1 / math.log2(1 + place) for place in hits) / ideal
    assert metric == "bpref"
    total = 0.0
    for place in hits:
        above = sum(label in bad for label in first[: place - 1])
        total += 1 - min(above, number) / min(len(bad), number) if bad else 1
    return total / number


def summed(
    metric: str, k: int, ranking: Sequence[Label], relevant: Collection[Label], number: int
) -> tuple[float, float]:
    """What a text adds to the two sums whose ratio is a micro-averaged metric."""
    first = ranking[:k]
    hits = sum(label in relevant for label in first)
    return {
        "micro-precision": (hits, len(first)),
        "micro-recall": (hits, number),
        "micro-f1": (2 * hits, len(first) + number),
    }[metric]


def gained(
    k: int, ranking: Sequence[Label], gains: Grades, ideal: Grades, discount: Callable[[int], float]
) -> tuple[float, float]:
    """The sum over the first k, and that of the best possible ranking."""
    total = sum(gains.get(label, 0) * discount(place) for place, label in enumerate(ranking[:k], start=1))
    best = sorted(ideal.values(), reverse=True)[:k]
    return total, sum(gain * discount(place) for place, gain in enumerate(best, start=1))


def logarithmic(place: int) -> float:
    return 1 / math.log2(1 + place)


def inverse_propensity(texts_with_label: int, texts: int, a: float, b: float) -> float:
    c = (math.log(texts) - 1) * (b + 1) ** a
    p = 1 / (1 + c * math.exp(-a * math.log(texts_with_label + b)))
    return 1 / p
