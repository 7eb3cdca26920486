"""Sums over texts from which any two columns can be compared text by text, without keeping the texts.

A text's figure enters as a whole number of UNIT, so every sum is exact, however the texts were spread. Of two columns
i and j the sums of x_i, x_i^2 and x_i x_j give the t-test of their differences; they are kept by the number of
relevant labels of the text. For the randomisation test the sums of sign blocks are enough (see random_signs). With
the number and the fingerprint of the texts of each block, those sums can also be paired with those of another result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.hits import Hits
from fusion.label_groups import ALL
from fusion.metrics import Measure, is_tabled
from fusion.statistics.random_signs import randomization_p
from fusion.statistics.significance import Paired, paired_t_of_sums
from fusion.statistics.tally import IDEALS, hit_weights, ideals_of
from fusion.types import Array, Floats, Ints
from fusion.worth import PLAIN_RULES, Rules

UNIT = 2.0**-18
"""About 4e-6. Sums of squares stay below 2^53 up to 100,000 texts at a time and below 2^63 up to 10^8 texts."""
TEXTS_AT_A_TIME = 1024
FEWEST_LABELS = (1, 2, 3, 6, 11)
"""Texts are told apart by their number of relevant labels: 1, 2, 3 to 5, 6 to 10, 11 and more."""


class Aspect(NamedTuple):
    """What is compared: a measure of a view under an ideal."""

    view: str
    measure: Measure
    ideal: str

    def __str__(self) -> str:
        return f"{self.view} {self.measure} {self.ideal}"


def distinct_aspects(
    views: Sequence[str], measures: Sequence[Measure], rules: Rules = PLAIN_RULES
) -> dict[Aspect, Aspect]:
    """Every aspect, and the first one that has the same figures: nDCG@1 is P@1, and a measure that does not look at
    the number of relevant labels is the same under both ideals. Of a view, those that hits by rank tell come first."""
    tabled = [measure for measure in measures if is_tabled(measure, rules)]
    k = max((measure.k for measure in tabled), default=0)
    first: dict[tuple[str, str, bytes], Aspect] = {}
    same_as = {}
    for view in views:
        for ideal in IDEALS[:1] if view == ALL else IDEALS:
            for measure in tabled:
                weights = hit_weights(measure, k)[:, 1:]
                depends = bool((weights != weights[:, :1]).any())
                aspect = Aspect(view, measure, ideal)
                same_as[aspect] = first.setdefault((view, ideal if depends else "", weights.tobytes()), aspect)
        for measure in measures:
            if measure not in tabled:
                same_as |= {(aspect := Aspect(view, measure, ideal)): aspect for ideal in ideals_of(measure, view)}
    return same_as


class Watcher(Protocol):
    """What sees figures on the way."""

    def add(self, figures: Floats, numbers: Ints) -> None:
        """The figures [text, column] of some texts, and a number of each."""


class Watch(NamedTuple):
    """An aspect whose figures somebody wants to see, and the number that each text has for him."""

    aspect: Aspect
    watcher: Watcher
    numbers: Ints


class Further(Protocol):
    """Figures of aspects that hits by rank do not tell."""

    @property
    def hit(self) -> Array:
        """Which texts may have a figure above 0."""

    def of(self, texts: Ints) -> Floats:
        """The figures [aspect, text, column] of some texts."""


class PairedSums:
    """The sums of every distinct aspect, in whole numbers of UNIT.

    `queries[aspect, size]` (size 0: texts without relevant labels, then FEWEST_LABELS), `sums[aspect, size, column]`,
    `products[aspect, size, i, j]` of columns i <= j (sizes without the first) and `blocks[aspect, block, column]`;
    `block_texts[aspect, block]` counts the texts of a block, `block_prints[aspect, block]` adds up their fingerprints.
    """

    def __init__(
        self,
        views: Sequence[str],
        measures: Sequence[Measure],
        columns: int,
        blocks: int = 0,
        vectors: int = 0,
        seed: int = 0,
        rules: Rules = PLAIN_RULES,
    ) -> None:
        """`vectors` sign vectors over so many blocks are drawn from the seed; without blocks there is no such test."""
        self.same_as = distinct_aspects(views, measures, rules)
        self.aspects = list(dict.fromkeys(self.same_as.values()))
        self._place = {aspect: self.aspects.index(same) for aspect, same in self.same_as.items()}
        self._tabled = [is_tabled(aspect.measure, rules) for aspect in self.aspects]
        self._k = max((measure.k for measure in measures if is_tabled(measure, rules)), default=0)
        self._columns, self._vectors, self._seed = columns, vectors, seed
        size, sizes = len(self.aspects), len(FEWEST_LABELS)
        self.queries: Ints = np.zeros((size, 1 + sizes), np.int64)
        # Sums are whole numbers far below 2^53, which floats hold exactly; products are not.
        self.sums: Floats = np.zeros((size, sizes, columns))
        self.products: Ints = np.zeros((size, sizes, columns, columns), np.int64)
        self.blocks: Floats = np.zeros((size, blocks, columns))
        self.block_texts: Ints = np.zeros((size, blocks), np.int64)
        self.block_prints: Ints = np.zeros((size, blocks), np.int64)
        self._known_totals: dict[tuple[int, int | None], tuple[int, list[int], list[list[int]]]] = {}
        self._known_p: Floats | None = None

    def add(
        self,
        hits: Hits,
        counted: Array,
        relevant: Sequence[Ints],
        block: Ints,
        prints: Ints,
        watches: Sequence[Watch] = (),
        further: Further | None = None,
    ) -> None:
        """The texts that `counted` marks, with their hits in one view and their numbers of relevant labels: all, and
        those of the view. `block` and `prints` are the block and the fingerprint of each text. `watches` see the
        figures of an aspect on the way; `further` has the figures of aspects that hits by rank do not tell."""
        self._forget()
        here = [a for a, aspect in enumerate(self.aspects) if aspect.view == hits.view]
        of_view = slice(here[0], here[-1] + 1)
        size = np.searchsorted(FEWEST_LABELS, relevant[0], side="right")
        if further is not None:
            # A label of too low a grade to be relevant may still count in a graded measure.
            size = np.where(further.hit, np.maximum(size, 1), size)
        self.queries[of_view] += np.bincount(size[counted], minlength=self.queries.shape[1])
        self._add_block_texts(of_view, block[counted], prints[counted])
        first = np.searchsorted(hits.text, np.arange(len(counted) + 1))
        hit = first[1:] > first[:-1]
        texts = np.flatnonzero(counted & (hit if further is None else hit | further.hit))
        # By size, so that the products of a size are added up in one go.
        texts = texts[np.argsort(size[texts], kind="stable")]
        number = np.minimum(np.stack(list(relevant)), self._k)
        weights, by_group = self._weights[hits.view]
        tabled = len(by_group)
        for begin in range(0, len(texts), TEXTS_AT_A_TIME):
            chosen = texts[begin : begin + TEXTS_AT_A_TIME]
            places = (chosen, size - 1, block)
            sums, blocks = self.sums[of_view], self.blocks[of_view]
            _add_up(
                self._figures, sums[:tabled], blocks[:tabled], *places, first, hits.ranks, weights, number, by_group
            )
            if further is not None:
                _add_rounded(self._figures[tabled:], sums[tabled:], blocks[tabled:], *places, further.of(chosen))
            ends = np.searchsorted(size[chosen], np.arange(1, self.queries.shape[1] + 1))
            _add_products(self.products[of_view], self._figures, ends)
            for watch in watches:
                figures = self._figures[self._place[watch.aspect] - here[0], : len(chosen)]
                watch.watcher.add(figures, watch.numbers[chosen])

    def _add_block_texts(self, part: slice, block: Ints, prints: Ints) -> None:
        """Whose texts the block sums add up."""
        blocks = self.blocks.shape[1]
        if not blocks:
            return
        added = np.zeros(blocks, np.int64)
        np.add.at(added, block, prints)
        self.block_texts[part] += np.bincount(block, minlength=blocks)
        self.block_prints[part] += added

    @cached_property
    def _figures(self) -> Floats:
        """Room for the figures [aspect, text, column] of some texts, used again and again: new memory is slow."""
        of_views = Counter(aspect.view for aspect in self.aspects)
        most = max(of_views.values())
        return np.empty((most, TEXTS_AT_A_TIME, self._columns))

    @cached_property
    def _weights(self) -> dict[str, tuple[Floats, Ints]]:
        """By view: what a hit is worth [number of relevant labels, rank, aspect] in units, and which number counts."""
        of: dict[str, list[Aspect]] = {aspect.view: [] for aspect in self.aspects}
        for aspect, tabled in zip(self.aspects, self._tabled, strict=True):
            if tabled:
                of[aspect.view].append(aspect)
        nothing = np.empty((self._k + 1, self._k + 1, 0))
        tables = {
            view: [nothing, *(hit_weights(aspect.measure, self._k).T[:, :, None] for aspect in mine)]
            for view, mine in of.items()
        }
        return {
            view: (
                np.ascontiguousarray(np.concatenate(tables[view], axis=2) / UNIT),
                np.array([int(aspect.ideal != ALL) for aspect in mine], np.int64),
            )
            for view, mine in of.items()
        }

    def packed(self) -> Iterator[tuple[str, Ints]]:
        """One vector of whole numbers per aspect, by its name."""
        rows, columns = np.triu_indices(self._columns)
        for a, aspect in enumerate(self.aspects):
            products = self.products[a][:, rows, columns]
            parts = [self.queries[a], self.sums[a], products, self.blocks[a], self.block_texts[a], self.block_prints[a]]
            yield str(aspect), np.concatenate([numbers.ravel().astype(np.int64) for numbers in parts])

    def unpack(self, name: str, places: Ints, counts: Ints) -> None:
        """Add a packed vector, of which `places` are given."""
        self._forget()
        a = [str(aspect) for aspect in self.aspects].index(name)
        rows, columns = np.triu_indices(self._columns)
        sizes = len(FEWEST_LABELS)
        blocks = self.blocks.shape[1]
        lengths = [self.queries[a].size, self.sums[a].size, sizes * len(rows), self.blocks[a].size, blocks, blocks]
        numbers = np.zeros(sum(lengths), np.int64)
        numbers[places] = counts
        queries, sums, products, block_sums, texts, prints = np.split(numbers, np.cumsum(lengths)[:-1])
        self.queries[a] += queries
        self.sums[a] += sums.reshape(sizes, -1)
        self.products[a][:, rows, columns] += products.reshape(sizes, -1)
        self.blocks[a] += block_sums.reshape(self.blocks[a].shape)
        self.block_texts[a] += texts
        self.block_prints[a] += prints

    def texts(self, aspect: Aspect, size: int) -> int:
        """The number of texts of one size."""
        return int(self.queries[self._place[aspect], 1 + size])

    def mean(self, aspect: Aspect, column: int, size: int) -> float:
        """The mean figure of a column over the texts of one size."""
        return UNIT * float(self.sums[self._place[aspect], size, column]) / self.texts(aspect, size)

    def compare(self, aspect: Aspect, i: int, j: int, size: int | None = None) -> Paired:
        """Column i against column j: the t-test over all texts, or over those of one size."""
        queries, sums, products = self._totals(self._place[aspect], size)
        squares = products[i][i] - 2 * products[min(i, j)][max(i, j)] + products[j][j]
        return paired_t_of_sums(queries, sums[i] - sums[j], squares, UNIT)

    def _totals(self, a: int, size: int | None) -> tuple[int, list[int], list[list[int]]]:
        """Queries, sums and products of an aspect as Python's whole numbers, which are exact and quickly fetched."""
        if (a, size) not in self._known_totals:
            sizes = slice(None) if size is None else slice(size, size + 1)
            queries = self.queries[a].sum() if size is None else self.queries[a, 1 + size]
            sums, products = self.sums[a, sizes].sum(axis=0), self.products[a, sizes].sum(axis=0)
            self._known_totals[a, size] = int(queries), sums.astype(np.int64).tolist(), products.tolist()
        return self._known_totals[a, size]

    def randomization(self, aspect: Aspect, i: int, j: int) -> float | None:
        """The p-value of the randomisation test of column i against column j."""
        if not (self._vectors and self.blocks.shape[1]):
            return None
        if self._known_p is None:
            self._known_p = randomization_p(self.blocks, self._vectors, self._seed)
        return float(self._known_p[self._place[aspect], i, j])

    def block_sums(self, aspect: Aspect) -> Ints:
        """The sums [block, column] of an aspect, whole numbers of UNIT."""
        return self.blocks[self._place[aspect]].astype(np.int64)

    def texts_of_blocks(self, aspect: Aspect) -> tuple[Ints, Ints]:
        """How many texts each block has, and the sum of their fingerprints."""
        place = self._place[aspect]
        return self.block_texts[place], self.block_prints[place]

    def _forget(self) -> None:
        """What was derived from the sums is out of date."""
        self._known_totals.clear()
        self._known_p = None


@compiled
def _add_up(figures, sums, blocks, texts, size, block, first, ranks, weights, number, by_group):  # type: ignore[no-untyped-def]
    """figures[aspect, n, column]: the worth of the hits of texts[n], rounded to whole units and added to the sums of
    its size and of its block. `number[0]` counts all relevant labels, `number[1]` those of the view."""
    aspects = by_group.size
    columns = ranks.shape[1]
    cutoff = weights.shape[1] - 1
    worth = np.empty((cutoff + 1, aspects))
    total = np.empty((columns, aspects))
    for n in range(texts.size):
        t = texts[n]
        for a in range(aspects):
            for rank in range(cutoff + 1):
                worth[rank, a] = weights[number[by_group[a], t], rank, a]
        for column in range(columns):
            for a in range(aspects):
                total[column, a] = 0
        for j in range(first[t], first[t + 1]):
            for column in range(columns):
                rank = ranks[j, column]
                if 0 < rank <= cutoff:
                    for a in range(aspects):
                        total[column, a] += worth[rank, a]
        for a in range(aspects):
            of_text, of_size = figures[a, n], sums[a, size[t]]
            for column in range(columns):
                whole = np.rint(total[column, a])
                of_text[column] = whole
                of_size[column] += whole
            if blocks.shape[1]:
                of_block = blocks[a, block[t]]
                for column in range(columns):
                    of_block[column] += of_text[column]


@compiled
def _add_rounded(figures, sums, blocks, texts, size, block, values):  # type: ignore[no-untyped-def]
    """The same for figures [aspect, text, column] that are known already."""
    aspects, _, columns = values.shape
    for a in range(aspects):
        for n in range(texts.size):
            t = texts[n]
            of_text, of_size = figures[a, n], sums[a, size[t]]
            for column in range(columns):
                of_text[column] = np.rint(values[a, n, column] / UNIT)
                of_size[column] += of_text[column]
            if blocks.shape[1]:
                of_block = blocks[a, block[t]]
                for column in range(columns):
                    of_block[column] += of_text[column]


@compiled
def _add_products(products, figures, ends):  # type: ignore[no-untyped-def]
    """The products of columns i <= j, added up over the texts ends[s] to ends[s + 1] of every size s. BLAS would do
    the same, but with threads of its own, which slow down processes that keep every core busy already."""
    aspects, sizes, columns, _ = products.shape
    for a in range(aspects):
        for s in range(sizes):
            begin, end = ends[s], ends[s + 1]
            if begin == end:
                continue
            # Four texts and two columns at a time, so that what is fetched once serves several additions; missing texts
            # weigh nothing, and a last odd column is taken twice, into a row that nobody reads.
            total = np.zeros((columns + 1, columns))
            for n in range(begin, end, 4):
                second, third, fourth = n + 1 < end, n + 2 < end, n + 3 < end
                w, x = figures[a, n], figures[a, n + 1 if second else n]
                y, z = figures[a, n + 2 if third else n], figures[a, n + 3 if fourth else n]
                for i in range(0, columns, 2):
                    k = min(i + 1, columns - 1)
                    wi, xi, yi, zi = w[i], x[i] * second, y[i] * third, z[i] * fourth
                    wk, xk, yk, zk = w[k], x[k] * second, y[k] * third, z[k] * fourth
                    row, next_row = total[i], total[i + 1]
                    for j in range(i, columns):
                        row[j] += (wi * w[j] + xi * x[j]) + (yi * y[j] + zi * z[j])
                        next_row[j] += (wk * w[j] + xk * x[j]) + (yk * y[j] + zk * z[j])
            for i in range(columns):
                for j in range(i, columns):
                    products[a, s, i, j] += np.int64(total[i, j])
