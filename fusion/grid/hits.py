"""What the columns of a grid do with texts: the ranks of relevant labels, and how many labels each column lists."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from fusion.compiled import compiled
from fusion.grid.grid import Grid
from fusion.kernel import ranking
from fusion.kernel.texts import PoolView, Scope, TextBlock, pool_views, small_numbers
from fusion.labels import ALL
from fusion.types import Array, Floats, Int32s, Ints
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

    def relevant(self, threshold: float) -> Hits:
        """The hits whose grade makes them relevant; all of them, where there are no grades."""
        return self if self.grade is None else self.where(self.grade >= threshold)

    def within(self, depth: int) -> Hits:
        """The hits that some column has among its first `depth`."""
        return self.where(_reach(self.ranks, depth))


class TieOrder(NamedTuple):
    """How equal scores are ordered, where that is not by ascending label id."""

    ties: Ties
    key: Callable[[Int32s], Int32s] | None = None
    """From labels to numbers; of equal scores the one with the greater number comes first (ties `descending`)."""

    def keys(self, labels: Int32s) -> Int32s | None:
        """The numbers of some labels; None where nothing is ordered by them."""
        return None if self.key is None else self.key(labels)


class Ranked(Protocol):
    """Who looks at the scores of some columns while texts are ranked."""

    columns: frozenset[int]

    def add(self, pool_view: PoolView, text: Ints, column: int, scores: Array, key: Int32s | None = None) -> None:
        """The scores of a text block; `text` is that of every pool."""

    def add_list(self, pool_view: PoolView, text: Ints, column: int, position: Int32s) -> None:
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
    gets the scores of its columns, also of texts without a hit that have a relevant label in the view."""
    hits_of: dict[str, list[Hits]] = {view: [] for view in views}
    ranked: dict[tuple[str, ...], list[Ints]] = defaultdict(list)
    repeated = []
    expected = tie_order is not None and tie_order.ties == "expected"
    for first, block in texts.blocks():
        for shared in pool_views(block, views, groups, scope, keep_all=False):
            pools = shared[0].pools
            repeated.append(pools.repeated + first)
            shape = len(grid.columns) + len(pools.position)
            tables = [np.empty((1 + expected, len(c.relevant), shape), np.int32) for c in shared]
            _rank(grid, shared, tables, tie_order, pools.source + first, best)
            ranked[tuple(pool_view.view for pool_view in shared)].append(pools.source + first)
            for pool_view, table in zip(shared, tables, strict=True):
                label = pools.label[pool_view.relevant_candidate]
                text = np.repeat(pools.source, np.diff(pool_view.relevant_offset)) + first
                grade = None if texts.judged is None else texts.grades_of(text, label)
                tied = table[1] if expected else None
                hits_of[pool_view.view].append(Hits(pool_view.view, text, label, table[0], tied, grade))
    if best is not None:
        for together, sources in ranked.items():
            rest = _without_hit(texts, together, groups, np.concatenate(sources))
            views_of = partial(pool_views, views=together, groups=groups, scope=scope, keep_all=True)
            _show_rest(grid, texts, rest, views_of, tie_order, best)
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
    """Hits of one text block after another."""
    columns: list[Any] = [
        None if arrays[0] is None else np.concatenate(arrays)
        for arrays in zip(*(hits[1:] for hits in of_blocks), strict=True)
    ]
    return Hits(view, *columns)


class _Scored(NamedTuple):
    """The scores of a column; of a single list, also the positions in it, where they alone order it."""

    column: int
    scores: Array
    position: Int32s | None = None


def _scored(
    grid: Grid, shared: Sequence[PoolView], order: TieOrder | None, only: frozenset[int] | None = None
) -> Iterator[_Scored]:
    """All columns or some: those of the grid, then the single lists. Where ties are not ordered by label id, single
    lists must be read by their scores, too."""
    pools = shared[0].pools
    # trec_eval holds scores in single precision, ranx in double.
    precision = np.float64 if order is not None and order.ties == "ranx" else np.float32
    listed_precision = np.float32 if order is not None and order.ties == "descending" else np.float64
    for column, fused in grid.fused(pools, shared[0].normalized, precision, only):
        yield _Scored(column, fused)
    for r, position in enumerate(pools.position):
        column = len(grid.columns) + r
        if only is not None and column not in only:
            continue
        if order is None:
            yield _Scored(column, np.where(position >= 0, -position, np.nan).astype(np.float32), position)
        else:
            yield _Scored(column, np.where(position >= 0, pools.score[r], np.nan).astype(listed_precision))


def _rank(
    grid: Grid,
    shared: Sequence[PoolView],
    tables: Sequence[Int32s],
    order: TieOrder | None,
    text: Ints,
    best: Ranked | None,
) -> None:
    """Fill in the ranks [0, relevant candidate, column]; [1] gets the number of candidates that share a score, where
    the expected value is wanted."""
    key = None if order is None else order.keys(shared[0].pools.label)
    for scored in _scored(grid, shared, order):
        for pool_view, table in zip(shared, tables, strict=True):
            scores = pool_view.take(scored.scores)
            places = (pool_view.offset, pool_view.relevant, pool_view.relevant_offset)
            if order is None:
                table[0, :, scored.column] = ranking.relevant_ranks(scores, *places)
            elif order.ties == "expected":
                table[:, :, scored.column] = ranking.tied_ranks(scores, *places)
            elif order.ties == "ranx":
                table[0, :, scored.column] = ranking.quicksort_ranks(scores, *places)
            else:
                assert key is not None
                table[0, :, scored.column] = ranking.ranks_by_key(scores, pool_view.take(key), *places)
            if best is not None and scored.column in best.columns:
                _show(best, pool_view, text, scored, key)


def _without_hit(texts: TextBlock, views: Sequence[str], groups: tuple[str, ...], ranked: Ints) -> Ints:
    """The texts that were not ranked, since they have no hit, and count in a view for all that."""
    wanted = np.any([(texts.relevant_counts(groups, view) > 0) | (view == ALL) for view in views], axis=0)
    wanted[ranked] = False
    return np.flatnonzero(wanted)


def _show_rest(
    grid: Grid,
    texts: TextBlock,
    rest: Ints,
    views_of: Callable[[TextBlock], Iterator[list[PoolView]]],
    order: TieOrder | None,
    best: Ranked,
) -> None:
    """Show `best` some of the texts; only its columns are computed."""
    for first, block in texts.some(rest).blocks():
        for shared in views_of(block):
            key = None if order is None else order.keys(shared[0].pools.label)
            text = rest[shared[0].pools.source + first]
            for scored in _scored(grid, shared, order, best.columns):
                for pool_view in shared:
                    _show(best, pool_view, text, scored, key)


def _show(best: Ranked, pool_view: PoolView, text: Ints, scored: _Scored, key: Int32s | None) -> None:
    if scored.position is not None and pool_view.member is None:
        best.add_list(pool_view, text, scored.column, scored.position)
    else:
        best.add(pool_view, text, scored.column, scored.scores, key)


def count_listed(texts: TextBlock, grid: Grid, view: str, groups: tuple[str, ...], scope: Scope) -> Int32s:
    """How many labels each column lists of each text [text, column]: of the grid and, behind its columns, of every
    single retriever. Labels of the lists that it fuses count once; nothing is ranked for it."""
    lists = texts.lists(view if scope == "group" else ALL)
    retrievers = lists.start.shape[1]
    every = tuple(range(retrievers))
    listed = np.empty((len(texts), len(grid.columns) + retrievers), np.int32)
    folds = np.zeros(len(texts), np.int64) if texts.fold is None else texts.fold
    label = small_numbers(lists.label)
    group = -1 if scope == "group" or view == ALL else groups.index(view)
    sizes: dict[tuple[int, ...], Ints] = {}
    for fold in np.unique(folds) if grid.strategies else folds[:1]:
        here = folds == fold if grid.strategies else np.ones(len(texts), bool)
        fused = [*grid.lists_of(view, int(fold)), *((r,) for r in every)]
        for column, some in enumerate(fused):
            chosen = some or every
            if chosen not in sizes:
                sizes[chosen] = _count_labels(lists.start, lists.stop, label, lists.group, group, np.array(chosen))
            listed[here, column] = sizes[chosen][here]
    return listed


@compiled
def _reach(ranks, depth):  # type: ignore[no-untyped-def]
    reached = np.empty(ranks.shape[0], np.bool_)
    for j in range(ranks.shape[0]):
        best = np.uint32(depth)
        for column in range(ranks.shape[1]):
            # Less one, rank 0 is the greatest of all.
            best = min(best, np.uint32(np.uint32(ranks[j, column]) - np.uint32(1)))
        reached[j] = best < depth
    return reached


@compiled
def _count_labels(start: Ints, stop: Ints, label: Int32s, groups: Array, group: int, lists: Ints) -> Ints:
    """The labels that some of the lists of each text hold, of one group or (-1) of all."""
    last_seen = np.full(label.max() + 1 if label.size else 0, -1)
    sizes = np.zeros(start.shape[0], np.int64)
    for t in range(start.shape[0]):
        for r in lists:
            for e in range(start[t, r], stop[t, r]):
                if last_seen[label[e]] != t and (group < 0 or groups[e] == group):
                    last_seen[label[e]] = t
                    sizes[t] += 1
    return sizes
