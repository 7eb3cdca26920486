"""Hits counted as whole numbers, and the figures that follow from them.

Where the worth of a hit depends only on its rank and on the number of relevant labels (nDCG, P), counts of hits by
(rank, number) say it all. Of all other metrics the figure of every text enters as a whole number of a small unit. Both
add up exactly in any order, so the figures are the same to the bit however the texts were spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.labels import ALL
from fusion.metrics import Metric
from fusion.registry import METRICS, TextMetric
from fusion.types import Floats, Int32s, Ints
from fusion.worth import JudgedTexts


class Counts:
    """Arrays of counts, each an attribute, all of them parts of the vector `counts`."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        sizes = [math.prod(shape) for shape in shapes.values()]
        self.counts: Ints = np.zeros(sum(sizes), np.int64)
        for (name, shape), part in zip(shapes.items(), np.split(self.counts, np.cumsum(sizes)[:-1]), strict=True):
            setattr(self, name, part.reshape(shape))

    def unpack(self, where: Ints, counts: Ints) -> None:
        """Add packed counts: where, and how many."""
        np.add.at(self.counts, where, counts)


IDEALS = ("all", "group")
UNIT = 2.0**-40
"""Of the sums of figures, which are at most 1: good for 8 million texts in a fold, with an error below 1e-12."""
POOLED_UNIT = 2.0**-32
"""Of the sums that make a ratio: good for 2 billion in a fold."""


class Figures(NamedTuple):
    """One metric in one view of one fold: the value of every column, None without queries."""

    label_group: str
    metric: str
    k: int
    ideal: str
    queries: int
    values: list[float | None]


class Tally(Counts):
    """Counts of one fold: `hits[view, ideal, column, rank - 1, n]`, `queries[view, ideal, n]` and `input_counts`.

    n is the number of relevant labels, of the text (ideal `all`) or of the view (ideal `group`), capped at k.
    `input_counts` are further counts, one for each of the caller's keys.
    `sums[view, ideal, metric, column]` are the figures of all texts under `metrics`, those that hits by rank do not
    tell, in units; of a ratio of sums, its numerators, and `ideal_sums`, of the same shape, its denominators.
    """

    hits: Ints
    queries: Ints
    input_counts: Ints
    sums: Ints
    ideal_sums: Ints

    def __init__(
        self, views: Sequence[str], columns: int, k: int, input_counts: int, metrics: Sequence[Metric] = ()
    ) -> None:
        self.views = list(views)
        self.k = k
        self.metrics = list(metrics)
        super().__init__(
            hits=(len(views), len(IDEALS), columns, k, k + 1),
            queries=(len(views), len(IDEALS), k + 1),
            input_counts=(input_counts,),
            sums=(len(views), len(IDEALS), len(metrics), columns),
            ideal_sums=(len(views), len(IDEALS), len(metrics), columns),
        )

    def add_queries(self, view: int, relevant_all: Ints, relevant_group: Ints) -> None:
        """Texts that count in a view, by their numbers of relevant labels."""
        for ideal, relevant in enumerate((relevant_all, relevant_group)):
            self.queries[view, ideal] += np.bincount(np.minimum(relevant, self.k), minlength=self.k + 1)

    def add_hits(self, view: int, ranks: Int32s, relevant_all: Ints, relevant_group: Ints) -> None:
        """Ranks of relevant labels (labels x columns; 0: not retrieved) with their texts' numbers."""
        _count(self.hits[view], ranks, np.minimum(relevant_all, self.k), np.minimum(relevant_group, self.k))

    def figures(self, metrics: Sequence[Metric]) -> Iterator[Figures]:
        """The means over the texts, under the ideals that matter."""
        for v, view in enumerate(self.views):
            queries = int(self.queries[v, 0].sum())
            for i, ideal in enumerate(IDEALS):
                for metric in metrics:
                    if ideal not in ideals_of(metric, view):
                        continue
                    values: list[float | None] = [None] * self.hits.shape[2]
                    if queries:
                        values = self.values(v, i, metric)
                    yield Figures(view, metric.name, metric.k, ideal, queries, values)

    def values(self, view: int, ideal: int, metric: Metric) -> list[float | None]:
        """The figure of every column. That of a mean over cut-offs is the mean of their figures."""
        queries = int(self.queries[view, ideal].sum())
        if metric in self.metrics:
            m = self.metrics.index(metric)
            sums = self.sums[view, ideal, m].tolist()
            whole = [queries * round(1 / UNIT)] * len(sums)
            of_ideal = self.ideal_sums[view, ideal, m].tolist() if is_pooled(metric) else whole
            # Python divides whole numbers of any size exactly rounded.
            return [total / max(most, 1) for total, most in zip(sums, of_ideal, strict=True)]
        if metric.parts[0] in self.metrics:
            of_parts = [self.values(view, ideal, part) for part in metric.parts]
            return [mean_of(of_column) for of_column in zip(*of_parts, strict=True)]
        worth = self.hits[view, ideal] * hit_weights(metric, self.k)[1:]
        # An exact sum: the same on every machine.
        return [math.fsum(of_column) / max(queries, 1) for of_column in worth.reshape(len(worth), -1).tolist()]


def mean_of(values: Iterable[float | None]) -> float | None:
    """The exact mean of the figures of a mean's parts; None where there are none."""
    figures = [value for value in values if value is not None]
    return math.fsum(figures) / len(figures) if figures else None


def ideals_of(metric: Metric, view: str) -> tuple[str, ...]:
    """The ideals under which the figures of a metric differ. In the view of all labels the two are one."""
    return IDEALS if view != ALL and METRICS[metric.name].ideal else IDEALS[:1]


def is_pooled(metric: Metric) -> bool:
    """Whether the figure is a ratio of sums over texts."""
    return METRICS[metric.name].pooled


def hit_weights(metric: Metric, k: int) -> Floats:
    """What a hit is worth by rank (0: not retrieved, then 1 to k) and number of relevant labels (0 to k)."""
    if len(metric.parts) > 1:
        return np.mean([hit_weights(part, k) for part in metric.parts], axis=0)
    entry = METRICS[metric.name]
    assert isinstance(entry, TextMetric) and entry.capped
    relevant = np.arange(k + 1)
    worth = entry.worth(metric.k, JudgedTexts(relevant))
    over = np.broadcast_to(np.asarray(worth.over, np.float64), k + 1)
    table = np.zeros((k + 1, k + 1))
    table[1 : metric.k + 1] = worth.by_rank[:, None] / np.where(over > 0, over, np.inf)
    return table


@compiled
def _count(hits, ranks, relevant_all, relevant_group):  # type: ignore[no-untyped-def]
    cutoff = hits.shape[2]
    for j in range(ranks.shape[0]):
        for column in range(ranks.shape[1]):
            rank = ranks[j, column]
            if 0 < rank <= cutoff:
                hits[0, column, rank - 1, relevant_all[j]] += 1
                hits[1, column, rank - 1, relevant_group[j]] += 1
