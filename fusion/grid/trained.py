"""Fusions that learn: what a place of a retriever's list is worth is counted on texts that are set apart for it.

A file of such a fusion says what each place of a list is worth, given the evidence about the retriever; the rest is
the same for all of them and stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fusion.cells import ANY_FOLD
from fusion.compiled import compiled
from fusion.kernel.candidates import Candidates
from fusion.kernel.pools import Lists, Relevant
from fusion.parameters import Limits, Parameters
from fusion.registry import FUSIONS, Fusion, Reads
from fusion.types import Array, Floats, Ints

PRECISION_UNIT = 2.0**-40
"""Average precisions enter as whole numbers of this, so that their sum does not depend on the order of the texts."""
Worth = Callable[..., Floats]
"""From evidence, the size of a list and parameters to what each place of the list is worth."""


@dataclass
class Evidence:
    """What the lists of one retriever held for the texts set apart, in whole numbers."""

    queries: int
    """Texts, also those for which the retriever returned nothing."""
    sizes: Ints
    """Lists by the number of their results; none has size 0."""
    hits: Ints
    """Lists of size n with a relevant label at place i: entry n (n - 1) / 2 + i."""
    precision: int
    """The sum of the texts' average precisions, in PRECISION_UNIT."""
    _known: dict[tuple[Any, ...], Floats] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def lists(self) -> int:
        return int(self.sizes.sum())

    @cached_property
    def reached(self) -> Ints:
        """Lists that have a place i."""
        return np.cumsum(self.sizes[:0:-1])[::-1]

    @cached_property
    def hits_at(self) -> Ints:
        """Lists with a relevant label at place i."""
        total = np.zeros(len(self.sizes) - 1, np.int64)
        for size in np.flatnonzero(self.sizes):
            total[:size] += self.hits_of(int(size))
        return total

    def hits_of(self, size: int) -> Ints:
        """The same, among the lists of one size."""
        first = size * (size - 1) // 2
        counted = self.hits[first : first + size]
        return np.concatenate([counted, np.zeros(size - len(counted), np.int64)])

    @cached_property
    def probabilities(self) -> Floats:
        """The share of lists with a relevant label at place i among those that have that place."""
        return self.hits_at / np.maximum(self.reached, 1)

    @property
    def mean_average_precision(self) -> float:
        return PRECISION_UNIT * self.precision / max(self.queries, 1)

    def mean_hits(self, edges: Sequence[int]) -> Floats:
        """The share of places with a relevant label between every two edges, over all lists; a list that ends before an
        edge has none in the places beyond its end."""
        before = np.concatenate(([0], np.cumsum(self.hits_at)))
        counted = before[np.minimum(edges, len(before) - 1)]
        return np.diff(counted) / np.diff(edges) / max(self.lists, 1)

    def worth(self, function: Worth, size: int, values: Mapping[str, Any]) -> Floats:
        key = (function, size, *values.items())
        if key not in self._known:
            self._known[key] = function(self, size, **values)
        return self._known[key]

    def __getstate__(self) -> dict[str, Any]:
        # What is known follows from the rest, and its keys are functions.
        return {"queries": self.queries, "sizes": self.sizes, "hits": self.hits, "precision": self.precision}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


@dataclass(frozen=True)
class Learned:
    """The evidence about each retriever, by fold."""

    by_fold: Mapping[int, Sequence[Evidence]]

    def of(self, fold: int) -> Sequence[Evidence]:
        return self.by_fold[fold if fold in self.by_fold else ANY_FOLD]

    def of_lists(self, lists: Sequence[int]) -> Learned:
        """That of some retrievers."""
        return Learned({fold: [evidence[number] for number in lists] for fold, evidence in self.by_fold.items()})


def trained(
    name: str,
    *,
    formula: str,
    citation: str,
    when: str = "",
    reads: Reads = "ranks",
    missing: float = 0.0,
    limits: Limits | None = None,
) -> Callable[[Worth], Fusion]:
    """Register a fusion by what the places of a list are worth. A label's score is the sum over the lists: the worth of
    its place, times its normalised score plus 1 if the fusion reads scores; `missing` where a list lacks it."""

    def register(worth: Worth) -> Fusion:
        def kernel(candidates: Candidates, *, learned: Learned, **values: Any) -> Array:
            rows, table = _worth_table(candidates, learned, worth, values)
            pools = candidates.pools
            matrix = worth_matrix(pools.offset, pools.position, pools.size, rows, table, missing)
            return candidates.total_of(matrix if reads == "ranks" else matrix * (candidates.x + 1))

        def plain(x: Floats, ranks: Floats, *, learned: Sequence[Evidence], **values: Any) -> Floats:
            total = np.zeros(ranks.shape[1])
            for evidence, scores, places in zip(learned, x, ranks - 1, strict=True):
                held = ~np.isnan(places)
                of_place = worth(evidence, int(held.sum()), **values)[places[held].astype(np.int64)]
                total[held] += of_place if reads == "ranks" else of_place * (scores[held] + 1)
                total[~held] += missing
            return total

        declared = Parameters.of(worth, limits or {}, skipped=2)
        parameters = Parameters(declared.known, trained=True)
        entry = FUSIONS.add(
            Fusion(
                name=name,
                reads=reads,
                formula=formula,
                citation=citation,
                kernel=kernel,
                standard=False,
                parameters=parameters,
                when=when,
            )
        )
        entry.plain = plain
        return entry

    return register


def _worth_table(
    candidates: Candidates, learned: Learned, worth: Worth, values: Mapping[str, Any]
) -> tuple[Ints, Floats]:
    """What the places of lists are worth, one row per kind of list, and the row of every list (pools x lists)."""
    pools = candidates.pools
    kinds: dict[tuple[int, int, int], int] = {}
    rows = np.empty(pools.size.shape, np.int64)
    for p, (fold, sizes) in enumerate(zip(pools.folds.tolist(), pools.size.tolist(), strict=True)):
        for r, size in enumerate(sizes):
            rows[p, r] = kinds.setdefault((fold, r, size), len(kinds))
    table = np.zeros((max(len(kinds), 1), max(candidates.longest, 1)))
    for (fold, r, size), row in kinds.items():
        if size:
            table[row, :size] = learned.of(fold)[r].worth(worth, size, values)
    return rows, table


def worth_matrix(offset: Ints, position: Array, size: Ints, rows: Ints, table: Floats, missing: float) -> Floats:
    """table[rows[pool, list], place] of every candidate (lists x candidates): `missing` where a list lacks it, NaN if
    there is no list."""
    return _worth_matrix(offset, position, size, rows, table, missing)


class ListHits(NamedTuple):
    """What the lists of each retriever held: see Evidence, with a row per retriever."""

    queries: Ints
    sizes: Ints
    hits: Ints
    precision: Ints


def count_list_hits(lists: Lists, relevant: Relevant, counted: Array) -> ListHits:
    """The lists of the texts that `counted` marks."""
    size = lists.stop - lists.start
    longest = int(size[counted].max(initial=0))
    retrievers = size.shape[1]
    made = ListHits(
        np.full(retrievers, counted.sum(), np.int64),
        np.zeros((retrievers, longest + 1), np.int64),
        np.zeros((retrievers, longest * (longest + 1) // 2), np.int64),
        np.zeros(retrievers, np.int64),
    )
    sums = made.sizes, made.hits, made.precision
    _count(lists.start, lists.stop, lists.label, *relevant, counted, *sums, PRECISION_UNIT)
    return made


@compiled
def _worth_matrix(offset, position, size, rows, table, missing):  # type: ignore[no-untyped-def]
    retrievers, candidates = position.shape
    out = np.full((retrievers, candidates), np.nan)
    for p in range(offset.size - 1):
        for r in range(retrievers):
            if size[p, r] == 0:
                continue
            worth = table[rows[p, r]]
            for c in range(offset[p], offset[p + 1]):
                out[r, c] = worth[position[r, c]] if position[r, c] >= 0 else missing
    return out


@compiled
def _count(start, stop, label, relevant_start, relevant_stop, relevant_label, counted, sizes, hits, precision, unit):  # type: ignore[no-untyped-def]
    for t in range(counted.size):
        if not counted[t]:
            continue
        relevant = relevant_label[relevant_start[t] : relevant_stop[t]]
        for r in range(start.shape[1]):
            size = stop[t, r] - start[t, r]
            if size == 0:
                continue
            sizes[r, size] += 1
            first = size * (size - 1) // 2
            hits_so_far = 0
            total = 0.0
            for place in range(size):
                wanted = label[start[t, r] + place]
                at = np.searchsorted(relevant, wanted)
                if at < relevant.size and relevant[at] == wanted:
                    hits_so_far += 1
                    total += hits_so_far / (place + 1)
                    hits[r, first + place] += 1
            if hits_so_far:
                precision[r] += np.int64(np.rint(total / relevant.size / unit))
