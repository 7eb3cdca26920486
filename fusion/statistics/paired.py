"""Sums over texts from which any two columns can be compared text by text, without keeping the texts.

A text's figure enters as a whole number of UNIT, so every sum is exact, however the texts were spread. Of two columns
i and j the sums of x_i, x_i^2 and x_i x_j give the t-test of their differences. For the randomisation test each text
has `flips` random signs s drawn from its own id; as sum(s (x_i - x_j)) = sum(s x_i) - sum(s x_j), the sums of single
columns are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fusion.kernel.blocks import Hits
from fusion.kernel.compiled import compiled
from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.statistics.significance import Paired, paired_t_of_sums, randomization_p
from fusion.statistics.tally import IDEALS, hit_weights
from fusion.types import Array, Floats, Ints

UNIT = 2.0**-18
"""About 4e-6. Sums of squares stay below 2^53 up to 100,000 texts a block and below 2^63 up to 10^8 texts."""
TEXTS_PER_BLOCK = 512


class Aspect(NamedTuple):
    """What is compared: a measure of a view under an ideal."""

    view: str
    measure: Measure
    ideal: str

    def __str__(self) -> str:
        return f"{self.view} {self.measure} {self.ideal}"


def aspects(views: Sequence[str], measures: Sequence[Measure]) -> list[Aspect]:
    """All that differ: a measure that does not look at the number of relevant labels has one ideal."""
    found = []
    for view in views:
        for ideal in IDEALS[:1] if view == ALL else IDEALS:
            for measure in measures:
                weights = hit_weights(measure, measure.k)[:, 1:]
                if ideal == IDEALS[0] or (weights != weights[:, :1]).any():
                    found.append(Aspect(view, measure, ideal))
    return found


class PairedSums:
    """The sums of every aspect: `sums[aspect, column]`, `products[aspect, column, column]`,
    `flipped[flip, aspect, column]` and `queries[aspect]`."""

    def __init__(self, views: Sequence[str], measures: Sequence[Measure], columns: int, flips: int, seed: int) -> None:
        self.aspects = aspects(views, measures)
        self._k = max(measure.k for measure in measures)
        self._weights = {
            view: np.array([hit_weights(a.measure, self._k) for a in self.aspects if a.view == view]) for view in views
        }
        self._seed = seed
        size = len(self.aspects)
        self.queries: Ints = np.zeros(size, np.int64)
        self.sums: Ints = np.zeros((size, columns), np.int64)
        self.products: Ints = np.zeros((size, columns, columns), np.int64)
        self.flipped: Floats = np.zeros((flips, size, columns))

    def add(self, hits: Hits, counted: Array, relevant: Sequence[Ints], keys: Ints) -> None:
        """The texts that `counted` marks, with their hits in one view and their numbers of relevant labels: all, and
        those of the view.

        `keys`: a number for each text that depends on its id alone.
        """
        here = [a for a, aspect in enumerate(self.aspects) if aspect.view == hits.view]
        by_group = np.array([self.aspects[a].ideal != ALL for a in here])
        self.queries[here] += int(counted.sum())
        order = np.searchsorted(hits.text, np.arange(0, len(counted) + TEXTS_PER_BLOCK, TEXTS_PER_BLOCK))
        columns = self.sums.shape[1]
        for block, (first, last) in enumerate(pairwise(order)):
            if first == last:
                continue
            begin = block * TEXTS_PER_BLOCK
            part = slice(begin, min(begin + TEXTS_PER_BLOCK, len(counted)))
            number = np.minimum(np.stack([number[part] for number in relevant]), self._k)
            figures = np.zeros((part.stop - begin, len(here), columns))
            _add_up(
                figures,
                hits.text[first:last] - begin,
                hits.ranks[first:last],
                self._weights[hits.view],
                number,
                by_group,
            )
            figures[~counted[part]] = 0
            whole = np.rint(figures / UNIT)
            self.sums[here] += whole.sum(axis=0).astype(np.int64)
            for i, a in enumerate(here):
                self.products[a] += (whole[:, i].T @ whole[:, i]).astype(np.int64)
            if len(self.flipped):
                signs = _random_signs(keys[part], len(self.flipped), self._seed)
                sums = signs @ whole.reshape(len(whole), -1)
                self.flipped[:, here] += sums.reshape(len(signs), len(here), columns)

    def packed(self) -> Iterator[tuple[str, Ints]]:
        """One vector of whole numbers an aspect, by its name."""
        for a, aspect in enumerate(self.aspects):
            flipped = self.flipped[:, a].astype(np.int64)
            numbers = [self.queries[a : a + 1], self.sums[a], self.products[a].ravel(), flipped.ravel()]
            yield str(aspect), np.concatenate(numbers)

    def unpack(self, name: str, places: Ints, counts: Ints) -> None:
        """Add a packed vector, of which `places` are given."""
        a = [str(aspect) for aspect in self.aspects].index(name)
        columns = self.sums.shape[1]
        ends = np.cumsum([1, columns, columns * columns])
        numbers = np.zeros(ends[-1] + self.flipped[:, a].size, np.int64)
        numbers[places] = counts
        queries, sums, products, flipped = np.split(numbers, ends)
        self.queries[a] += queries[0]
        self.sums[a] += sums
        self.products[a] += products.reshape(columns, columns)
        self.flipped[:, a] += flipped.reshape(-1, columns)

    def compare(self, aspect: Aspect, i: int, j: int) -> tuple[Paired, float | None]:
        """Column i against column j: the t-test over all texts, and the p-value of the randomisation test."""
        a = self.aspects.index(aspect)
        sums, products = self.sums[a], self.products[a]
        total = int(sums[i]) - int(sums[j])
        squares = int(products[i, i]) - 2 * int(products[i, j]) + int(products[j, j])
        test = paired_t_of_sums(int(self.queries[a]), total, squares, UNIT)
        if not len(self.flipped):
            return test, None
        return test, randomization_p(total, self.flipped[:, a, i] - self.flipped[:, a, j])


@compiled
def _add_up(figures, text, ranks, weights, number, by_group):  # type: ignore[no-untyped-def]
    """figures[text, aspect, column]: the worth of a text's hits. `number[0]` counts all relevant labels, `number[1]`
    those of the view."""
    cutoff = weights.shape[1] - 1
    for j in range(ranks.shape[0]):
        t = text[j]
        for a in range(figures.shape[1]):
            worth = weights[a, :, number[1 if by_group[a] else 0, t]]
            for column in range(figures.shape[2]):
                rank = ranks[j, column]
                if 0 < rank <= cutoff:
                    figures[t, a, column] += worth[rank]


@compiled
def _random_signs(keys, flips, seed):  # type: ignore[no-untyped-def]
    """+1 or -1 for each flip and text (flips x texts), from the bits of splitmix64 (Steele et al. 2014)."""
    signs = np.empty((flips, keys.size))
    for t in range(keys.size):
        state = np.uint64(keys[t]) ^ _mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
        word = np.uint64(0)
        for flip in range(flips):
            if flip % 64 == 0:
                state += np.uint64(0x9E3779B97F4A7C15)
                word = _mixed(state)
            signs[flip, t] = 1.0 if word & np.uint64(1) else -1.0
            word >>= np.uint64(1)
    return signs


@compiled
def _mixed(z):  # type: ignore[no-untyped-def]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
