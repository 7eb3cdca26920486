"""Hits counted as whole numbers, and the figures that follow from them.

Every metric adds up over hits, and a hit's worth depends on its rank and on the number of relevant labels. So
counts of hits by (rank, number of relevant labels) say it all; they add up exactly in any order, and the figures
are the same to the bit however the texts were spread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.registry import METRICS
from fusion.statistics.counts import Counts
from fusion.types import Floats, Int32s, Ints

IDEALS = ("all", "group")


class Figure(NamedTuple):
    """One metric of one column in one view of one fold."""

    column: int
    label_group: str
    metric: str
    k: int
    ideal: str
    value: float | None
    queries: int


class Tally(Counts):
    """Counts of one fold: `hits[view, ideal, column, rank - 1, n]`, `queries[view, ideal, n]` and `input_counts`.

    n is the number of relevant labels, of the text (ideal `all`) or of the view (ideal `group`), capped at k.
    `input_counts` are further counts, one for each of the caller's keys.
    """

    hits: Ints
    queries: Ints
    input_counts: Ints

    def __init__(self, views: Sequence[str], columns: int, k: int, input_counts: int) -> None:
        self.views = list(views)
        self.k = k
        super().__init__(
            hits=(len(views), len(IDEALS), columns, k, k + 1),
            queries=(len(views), len(IDEALS), k + 1),
            input_counts=(input_counts,),
        )

    def add_queries(self, view: int, relevant_all: Ints, relevant_group: Ints) -> None:
        """Texts that count in a view, by their numbers of relevant labels."""
        for ideal, relevant in enumerate((relevant_all, relevant_group)):
            self.queries[view, ideal] += np.bincount(np.minimum(relevant, self.k), minlength=self.k + 1)

    def add_hits(self, view: int, ranks: Int32s, relevant_all: Ints, relevant_group: Ints) -> None:
        """Ranks of relevant labels (labels x columns; 0: not retrieved) with their texts' numbers."""
        _count(self.hits[view], ranks, np.minimum(relevant_all, self.k), np.minimum(relevant_group, self.k))

    def figures(self, measures: Sequence[Measure]) -> Iterator[Figure]:
        """The means over the texts. In the view of all labels the two ideals are one."""
        for v, view in enumerate(self.views):
            for i, ideal in enumerate(IDEALS[:1] if view == ALL else IDEALS):
                queries = int(self.queries[v, i].sum())
                for measure in measures:
                    weights = hit_weights(measure, self.k)
                    for column, hits in enumerate(self.hits[v, i]):
                        # An exact sum: the same on every machine.
                        gain = math.fsum((hits * weights[1:]).ravel())
                        value = gain / queries if queries else None
                        yield Figure(column, view, measure.metric, measure.k, ideal, value, queries)


def hit_weights(measure: Measure, k: int) -> Floats:
    """What a hit is worth by rank (0: not retrieved, then 1 to k) and number of relevant labels (0 to k)."""
    table = np.zeros((k + 1, k + 1))
    for relevant in range(k + 1):
        table[1 : measure.k + 1, relevant] = METRICS[measure.metric].weights(measure.k, relevant)
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
