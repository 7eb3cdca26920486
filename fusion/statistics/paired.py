"""Sums over texts from which any two cells can be compared text by text, without keeping the texts.

A text's figure enters as a whole number of UNIT, and whole numbers are added up, so every sum is exact, however the
texts were spread. Of two columns i and j the sums of x_i, x_i^2 and x_i x_j give the t-test of their differences; they
are kept by the number of relevant labels of the text. For the randomisation test the sums of sign blocks are enough
(see random_signs). With the number and the fingerprint of the texts of each block, those sums can also be paired with
those of another result.

The compiled part of sums over texts: figures [column, text] in whole numbers, and what these add up to.

Every sum is one of whole numbers, hence exact in any order. The texts of a column lie side by side, so that a processor
works on many at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from fusion.compiled import compiled
from fusion.grid.hits import Hits
from fusion.labels import ALL
from fusion.metrics import Aspect, Metric, is_tabled
from fusion.statistics.significance import ManyPaired, Paired, paired_t_of_many_sums, paired_t_of_sums
from fusion.statistics.signs import randomization_p
from fusion.statistics.tally import IDEALS, hit_weights, ideals_of
from fusion.types import Array, Floats, Int32s, Ints
from fusion.worth import PLAIN_RULES, Rules

TEXTS_TOGETHER = 16
"""The figures of this many texts are found before they are written, those of a column side by side."""


@compiled
def find_figures(figures: Int32s, texts: Ints, first: Ints, ranks: Int32s, weights: Floats, number: Ints) -> None:
    """figures[column, n]: the worth of the hits of texts[n], rounded to whole units. `weights[number, rank]` says what
    a hit is worth, by the number of relevant labels of its text."""
    columns = ranks.shape[1]
    cutoff = weights.shape[1] - 1
    totals = np.empty((TEXTS_TOGETHER, columns))
    for begin in range(0, texts.size, TEXTS_TOGETHER):
        some = texts[begin : begin + TEXTS_TOGETHER]
        for n in range(some.size):
            t = some[n]
            worth, total = weights[number[t]], totals[n]
            total[:] = 0
            for j in range(first[t], first[t + 1]):
                of_hit = ranks[j]
                for column in range(columns):
                    rank = of_hit[column]
                    total[column] += worth[np.uint32(rank if rank <= cutoff else 0)]
        for column in range(columns):
            of_column = figures[column, begin : begin + some.size]
            for n in range(some.size):
                of_column[n] = np.int32(np.rint(totals[n, column]))


@compiled
def add_sums(sums: Ints, blocks: Ints, figures: Int32s, ends: Ints, block: Array) -> None:
    """The figures of the texts ends[s] to ends[s + 1] of every size s, added to the sums of the size, and to those of
    the block of each text. `block` has numbers without a sign, which need not be checked for one."""
    sizes, columns = sums.shape
    for column in range(columns):
        of_text, of_block = figures[column], blocks[column]
        for s in range(sizes):
            of_size = of_text[ends[s] : ends[s + 1]]
            total = np.int64(0)
            for n in range(of_size.size):
                total += np.int64(of_size[n])
            sums[s, column] += total
        if of_block.size:
            for n in range(block.size):
                of_block[block[n]] += of_text[n]


@compiled
def add_products(products: Ints, figures: Int32s, ends: Ints) -> None:
    """The products of columns i <= j, added up over the texts ends[s] to ends[s + 1] of every size s: two columns with
    four at a time, so that what is fetched once serves several products. BLAS would do the same, but with threads of
    its own, which slow down processes that keep every core busy already."""
    sizes, columns, _ = products.shape
    last = columns - 1
    # Missing columns are taken to be the last one; their rows and columns are left out in the end.
    total = np.empty((columns + 1, columns + 3), np.int64)
    for s in range(sizes):
        begin, end = ends[s], ends[s + 1]
        if begin == end:
            continue
        for i in range(0, columns, 2):
            u, v = figures[i, begin:end], figures[min(i + 1, last), begin:end]
            for j in range(i, columns, 4):
                w, x = figures[j, begin:end], figures[min(j + 1, last), begin:end]
                y, z = figures[min(j + 2, last), begin:end], figures[min(j + 3, last), begin:end]
                uw = ux = uy = uz = vw = vx = vy = vz = np.int64(0)
                for n in range(end - begin):
                    un, vn = np.int64(u[n]), np.int64(v[n])
                    wn, xn, yn, zn = np.int64(w[n]), np.int64(x[n]), np.int64(y[n]), np.int64(z[n])
                    uw += un * wn
                    ux += un * xn
                    uy += un * yn
                    uz += un * zn
                    vw += vn * wn
                    vx += vn * xn
                    vy += vn * yn
                    vz += vn * zn
                row, next_row = total[i], total[i + 1]
                row[j], row[j + 1], row[j + 2], row[j + 3] = uw, ux, uy, uz
                next_row[j], next_row[j + 1], next_row[j + 2], next_row[j + 3] = vw, vx, vy, vz
        for i in range(columns):
            for j in range(i, columns):
                products[s, i, j] += total[i, j]


UNIT = 2.0**-18
"""About 4e-6. Sums of squares of figures up to 1 stay below 2^63 up to 10^8 texts."""
TEXTS_AT_A_TIME = 2032
"""Rows of figures of this many texts do not lie a multiple of 4 KB apart, in the same few places of a cache."""
BLOCKS = "blocks of "
"""The beginning of the name of a vector of block sums; then comes that of the aspect."""
FEWEST_LABELS = (1, 2, 3, 6, 11)
"""Classes of texts by their number of relevant labels: 1, 2, 3 to 5, 6 to 10, 11 and more."""


def distinct_aspects(
    views: Sequence[str], metrics: Sequence[Metric], rules: Rules = PLAIN_RULES
) -> dict[Aspect, Aspect]:
    """Every aspect, and the first one that has the same figures: nDCG@1 is P@1, and a metric that does not look at
    the number of relevant labels is the same under both ideals. Of a view, those that follow from hits by rank come
    first."""
    tabled = [metric for metric in metrics if is_tabled(metric, rules)]
    k = max((metric.deepest for metric in tabled), default=0)
    first: dict[tuple[str, str, bytes], Aspect] = {}
    same_as = {}
    for view in views:
        for ideal in IDEALS[:1] if view == ALL else IDEALS:
            for metric in tabled:
                weights = hit_weights(metric, k)[:, 1:]
                depends = bool((weights != weights[:, :1]).any())
                aspect = Aspect(view, *metric, ideal)
                same_as[aspect] = first.setdefault((view, ideal if depends else "", weights.tobytes()), aspect)
        for metric in metrics:
            if metric not in tabled:
                same_as |= {(aspect := Aspect(view, *metric, ideal)): aspect for ideal in ideals_of(metric, view)}
    return same_as


class Watcher(Protocol):
    """What sees figures on the way."""

    def add(self, figures: Int32s, numbers: Ints) -> None:
        """The figures [column, text] of some texts, in units, and a number of each. The rows may be longer."""


class Watch(NamedTuple):
    """An aspect whose figures a watcher asks for, and the watcher's number of each text."""

    aspect: Aspect
    watcher: Watcher
    numbers: Ints


class Further(Protocol):
    """Figures of aspects that do not follow from hits by rank."""

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
        metrics: Sequence[Metric],
        columns: int,
        blocks: int = 0,
        vectors: int = 0,
        seed: int = 0,
        rules: Rules = PLAIN_RULES,
    ) -> None:
        """`vectors` sign vectors over `blocks` blocks are drawn from the seed; without blocks there is no such test."""
        self.same_as = distinct_aspects(views, metrics, rules)
        self.aspects = list(dict.fromkeys(self.same_as.values()))
        self._place = {aspect: self.aspects.index(same) for aspect, same in self.same_as.items()}
        self._tabled = [is_tabled(aspect.metric_at_k, rules) for aspect in self.aspects]
        self._k = max((metric.deepest for metric in metrics if is_tabled(metric, rules)), default=0)
        self._columns, self._vectors, self._seed = columns, vectors, seed
        size, sizes = len(self.aspects), len(FEWEST_LABELS)
        self.queries: Ints = np.zeros((size, 1 + sizes), np.int64)
        self.sums: Ints = np.zeros((size, sizes, columns), np.int64)
        self.products: Ints = np.zeros((size, sizes, columns, columns), np.int64)
        # By column, so that the blocks of one column, among which texts are scattered, stay in the processor's cache.
        self._blocks: Ints = np.zeros((size, columns, blocks), np.int64)
        self.block_texts: Ints = np.zeros((size, blocks), np.int64)
        self.block_prints: Ints = np.zeros((size, blocks), np.int64)
        self._known_totals: dict[tuple[int, int | None], tuple[int, Ints, Ints]] = {}
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
        figures of an aspect on the way; `further` has the figures of aspects that do not follow from hits by rank."""
        self._forget()
        here = [a for a, aspect in enumerate(self.aspects) if aspect.label_group == hits.view]
        of_view = slice(here[0], here[-1] + 1)
        size = np.searchsorted(FEWEST_LABELS, relevant[0], side="right")
        if further is not None:
            # A label of too low a grade to be relevant may still count in a graded metric.
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
            values = None if further is None else further.of(chosen)
            ends = np.searchsorted(size[chosen], np.arange(1, self.queries.shape[1] + 1))
            of_block, figures = block[chosen].astype(np.uint32), self._figures
            # One aspect after the other, so that its figures stay in the processor's cache.
            for n, a in enumerate(here):
                if values is None or n < tabled:
                    find_figures(figures, chosen, first, hits.ranks, weights[n], number[by_group[n]])
                else:
                    figures[:, : len(chosen)] = np.rint(values[n - tabled].T / UNIT)
                add_sums(self.sums[a], self._blocks[a], figures, ends, of_block)
                add_products(self.products[a], figures, ends)
                for watch in watches:
                    if self._place[watch.aspect] == a:
                        watch.watcher.add(figures, watch.numbers[chosen])

    def _add_block_texts(self, part: slice, block: Ints, prints: Ints) -> None:
        """Whose texts the block sums add up."""
        blocks = self._blocks.shape[2]
        if not blocks:
            return
        added = np.zeros(blocks, np.int64)
        np.add.at(added, block, prints)
        self.block_texts[part] += np.bincount(block, minlength=blocks)
        self.block_prints[part] += added

    @cached_property
    def _figures(self) -> Int32s:
        """Room for the figures [column, text] of some texts, used again and again: new memory is slow."""
        return np.empty((self._columns, TEXTS_AT_A_TIME), np.int32)

    @cached_property
    def _weights(self) -> dict[str, tuple[Floats, Ints]]:
        """By view: what a hit is worth [aspect, number of relevant labels, rank] in units, and which number counts."""
        of: dict[str, list[Aspect]] = {aspect.label_group: [] for aspect in self.aspects}
        for aspect, tabled in zip(self.aspects, self._tabled, strict=True):
            if tabled:
                of[aspect.label_group].append(aspect)
        shape = (-1, self._k + 1, self._k + 1)
        return {
            view: (
                np.array([hit_weights(aspect.metric_at_k, self._k).T / UNIT for aspect in mine]).reshape(shape),
                np.array([int(aspect.ideal != ALL) for aspect in mine], np.int64),
            )
            for view, mine in of.items()
        }

    @property
    def blocks(self) -> Ints:
        """The sums [aspect, block, column]."""
        return self._blocks.transpose(0, 2, 1)

    def packed(self) -> Iterator[tuple[str, Ints]]:
        """Two vectors of whole numbers per aspect, by its name: the block sums, which are many and small, by themselves
        and the others."""
        for a, aspect in enumerate(self.aspects):
            yield str(aspect), np.concatenate([numbers.ravel() for numbers in self._of_aspect(a)])
            yield BLOCKS + str(aspect), self._blocks[a].ravel()

    def unpack(self, name: str, places: Ints, counts: Ints) -> None:
        """Add a packed vector, of which `places` are given."""
        self._forget()
        a = [str(aspect) for aspect in self.aspects].index(name.removeprefix(BLOCKS))
        if name.startswith(BLOCKS):
            self._blocks[a].ravel()[places] += counts
            return
        ends = np.cumsum([part.size for part in self._of_aspect(a)])
        numbers = np.zeros(ends[-1], np.int64)
        numbers[places] = counts
        queries, sums, products, texts, prints = np.split(numbers, ends[:-1])
        rows, columns = np.triu_indices(self._columns)
        self.queries[a] += queries
        self.sums[a] += sums.reshape(len(FEWEST_LABELS), -1)
        self.products[a][:, rows, columns] += products.reshape(len(FEWEST_LABELS), -1)
        self.block_texts[a] += texts
        self.block_prints[a] += prints

    def _of_aspect(self, a: int) -> tuple[Ints, ...]:
        """What is kept of an aspect in addition to its block sums."""
        rows, columns = np.triu_indices(self._columns)
        products = self.products[a][:, rows, columns]
        return self.queries[a], self.sums[a], products, self.block_texts[a], self.block_prints[a]

    def texts(self, aspect: Aspect, size: int) -> int:
        """The number of texts of one size."""
        return int(self.queries[self._place[aspect], 1 + size])

    def mean(self, aspect: Aspect, column: int | Ints, size: int) -> Any:
        """The mean figure of a column, or of each of several, over the texts of one size."""
        return UNIT * self.sums[self._place[aspect], size, column] / self.texts(aspect, size)

    def compare(self, aspect: Aspect, i: int, j: int, size: int | None = None) -> Paired:
        """Column i against column j: the t-test over all texts, or over those of one size."""
        queries, sums, products = self._totals(self._place[aspect], size)
        squares = products[i, i] - 2 * products[min(i, j), max(i, j)] + products[j, j]
        return paired_t_of_sums(queries, int(sums[i] - sums[j]), int(squares), UNIT)

    def compare_many(self, aspect: Aspect, i: Ints, j: Ints, size: int | None = None) -> ManyPaired:
        """Each column of i against that of j, likewise."""
        queries, sums, products = self._totals(self._place[aspect], size)
        squares = products[i, i] - 2 * products[np.minimum(i, j), np.maximum(i, j)] + products[j, j]
        return paired_t_of_many_sums(queries, sums[i] - sums[j], squares, UNIT)

    def _totals(self, a: int, size: int | None) -> tuple[int, Ints, Ints]:
        """Queries, sums and products of an aspect."""
        if (a, size) not in self._known_totals:
            sizes = slice(None) if size is None else slice(size, size + 1)
            queries = self.queries[a].sum() if size is None else self.queries[a, 1 + size]
            sums, products = self.sums[a, sizes].sum(axis=0), self.products[a, sizes].sum(axis=0)
            self._known_totals[a, size] = int(queries), sums, products
        return self._known_totals[a, size]

    def randomization(self, aspect: Aspect, i: int | Ints, j: int | Ints) -> Any:
        """The p-value of the randomisation test of column i against column j, or of each of several against another."""
        p = self.draw_signs()
        return None if p is None else p[self._place[aspect], i, j]

    def draw_signs(self) -> Floats | None:
        """Draw the sign vectors, unless that is done: p[aspect, i, j]; None where there is no such test."""
        if self._known_p is None and self._vectors and self._blocks.shape[2]:
            self._known_p = randomization_p(self.blocks, self._vectors, self._seed)
        return self._known_p

    def block_sums(self, aspect: Aspect) -> Ints:
        """The sums [block, column] of an aspect, whole numbers of UNIT."""
        return self.blocks[self._place[aspect]]

    def texts_of_blocks(self, aspect: Aspect) -> tuple[Ints, Ints]:
        """How many texts each block has, and the sum of their fingerprints."""
        place = self._place[aspect]
        return self.block_texts[place], self.block_prints[place]

    def _forget(self) -> None:
        """What was derived from the sums is out of date."""
        self._known_totals.clear()
        self._known_p = None
