"""The ranks of relevant labels in every column of a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from fusion.grid import Grid
from fusion.kernel.blocks import PoolView, Scope, TextBlock, pool_views
from fusion.kernel.ranking import quicksort_ranks, ranks_by_key, relevant_ranks, tied_ranks
from fusion.types import Array, Floats, Int32s, Ints, Singles
from fusion.worth import Ties


class Hits(NamedTuple):
    """Relevant candidates of a view, text after text: which label, and its ranks in every column (0: not retrieved)."""

    view: str
    text: Ints
    label: Int32s
    ranks: Int32s
    tied: Int32s | None = None
    """Where the expected value over tied orders is wanted, the number of candidates that share the score, and `ranks`
    holds the best rank that they allow."""
    grade: Floats | None = None
    """The grades, where candidates are judged with some; then hits are all judged candidates."""

    def where(self, chosen: Array) -> Hits:
        """The hits that `chosen` marks."""
        columns: list[Any] = [None if values is None else values[chosen] for values in self[1:]]
        return Hits(self.view, *columns)


class TieOrder(NamedTuple):
    """How equal scores are ordered, where that is not by ascending label id."""

    ties: Ties
    key: Callable[[Int32s], Int32s] | None = None
    """From labels to numbers; of equal scores the one with the greater number comes first (ties `descending`)."""


class Ranked(Protocol):
    """Who looks at the scores of some columns while texts are ranked."""

    columns: frozenset[int]

    def add(self, pool_view: PoolView, first: int, column: int, scores: Array, key: Int32s | None = None) -> None:
        """The scores of a block of texts, the first of which is `first`."""

    def add_list(self, pool_view: PoolView, first: int, column: int, position: Int32s) -> None:
        """The positions in a single list."""


def find_hits(
    texts: TextBlock,
    grid: Grid,
    views: tuple[str, ...],
    groups: tuple[str, ...],
    scope: Scope,
    tie_order: TieOrder | None = None,
    best: Ranked | None = None,
) -> tuple[list[Hits], Ints]:
    """The ranks of all relevant candidates (of all judged ones, where there are grades) in every column of the grid
    and, behind those, in every single retriever's list. Also the texts in which a list holds a label twice. `best`
    gets the scores of its columns, also of texts without a hit."""
    hits_of: dict[str, list[Hits]] = {view: [] for view in views}
    repeated = []
    expected = tie_order is not None and tie_order.ties == "expected"
    for first, block in texts.blocks():
        for shared in pool_views(block, views, groups, scope, keep_all=best is not None):
            pools = shared[0].pools
            repeated.append(pools.repeated + first)
            shape = len(grid.columns) + len(pools.position)
            tables = [np.empty((1 + expected, len(c.relevant), shape), np.int32) for c in shared]
            if tie_order is None:
                _rank_by_order(grid, shared, tables, first, best)
            else:
                _rank_by_scores(grid, shared, tables, tie_order, first, best)
            for pool_view, table in zip(shared, tables, strict=True):
                label, text = pools.label[pool_view.relevant_candidate], pool_view.relevant_source + first
                grade = None if texts.judged is None else texts.grades_of(text, label)
                tied = table[1] if expected else None
                hits_of[pool_view.view].append(Hits(pool_view.view, text, label, table[0], tied, grade))
    columns = len(grid.columns) + texts.start.shape[1]
    nothing = Hits(
        "",
        np.empty(0, np.int64),
        np.empty(0, np.int32),
        np.empty((0, columns), np.int32),
        np.empty((0, columns), np.int32) if expected else None,
        None if texts.judged is None else np.empty(0),
    )
    hits = [_joined_hits(view, [nothing, *of_view]) for view, of_view in hits_of.items()]
    return hits, np.unique(np.concatenate([np.empty(0, np.int64), *repeated]))


def _joined_hits(view: str, of_blocks: Sequence[Hits]) -> Hits:
    """Hits of one block of texts after another."""
    columns: list[Any] = [
        None if arrays[0] is None else np.concatenate(arrays)
        for arrays in zip(*(hits[1:] for hits in of_blocks), strict=True)
    ]
    return Hits(view, *columns)


def _rank_by_order(
    grid: Grid, shared: Sequence[PoolView], tables: Sequence[Int32s], first: int, best: Ranked | None
) -> None:
    """Fill in the ranks [0, relevant candidate, column] by the one total order."""
    pools = shared[0].pools
    for column, fused in grid.fused(pools, shared[0].normalized):
        for pool_view, table in zip(shared, tables, strict=True):
            table[0, :, column] = _ranks(pool_view, fused)
            if best is not None and column in best.columns:
                best.add(pool_view, first, column, fused)
    for r, position in enumerate(pools.position):
        column = len(grid.columns) + r
        lists_only = np.where(position >= 0, -position, np.nan).astype(np.float32)
        for pool_view, table in zip(shared, tables, strict=True):
            table[0, :, column] = _ranks(pool_view, lists_only)
            if best is not None and column in best.columns:
                if pool_view.member is None:
                    best.add_list(pool_view, first, column, position)
                else:
                    best.add(pool_view, first, column, lists_only)


def _rank_by_scores(
    grid: Grid,
    shared: Sequence[PoolView],
    tables: Sequence[Int32s],
    order: TieOrder,
    first: int,
    best: Ranked | None,
) -> None:
    """The same with another order of equal scores, which single lists must be read by, too. `tables[.][1]` gets the
    number of candidates that share a score, where the expected value is wanted."""
    pools = shared[0].pools
    key = None if order.key is None else order.key(pools.label)
    # trec_eval holds scores in single precision, ranx in double.
    precision = np.float32 if order.ties == "descending" else np.float64
    for column, fused in grid.fused(pools, shared[0].normalized, np.float64 if order.ties == "ranx" else np.float32):
        for pool_view, table in zip(shared, tables, strict=True):
            table[:, :, column] = _ranks_with_ties(pool_view, fused, order.ties, key)
            if best is not None and column in best.columns:
                best.add(pool_view, first, column, fused, key)
    for r, position in enumerate(pools.position):
        column = len(grid.columns) + r
        listed = np.where(position >= 0, pools.score[r], np.nan).astype(precision)
        for pool_view, table in zip(shared, tables, strict=True):
            table[:, :, column] = _ranks_with_ties(pool_view, listed, order.ties, key)
            if best is not None and column in best.columns:
                best.add(pool_view, first, column, listed, key)


def _ranks(pool_view: PoolView, scores: Singles) -> Int32s:
    return relevant_ranks(pool_view.take(scores), pool_view.offset, pool_view.relevant, pool_view.relevant_offset)


def _ranks_with_ties(pool_view: PoolView, scores: Array, ties: Ties, key: Int32s | None) -> Int32s:
    """The ranks [1, candidate]; for the expected value, also the number of candidates that share the score."""
    places = (pool_view.offset, pool_view.relevant, pool_view.relevant_offset)
    if ties == "expected":
        return np.stack(tied_ranks(pool_view.take(scores), *places))
    if ties == "ranx":
        return quicksort_ranks(pool_view.take(scores), *places)[None]
    assert key is not None
    return ranks_by_key(pool_view.take(scores), pool_view.take(key), *places)[None]
