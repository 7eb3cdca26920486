"""How many labels each column lists of each text: those of the lists that it fuses, each label once."""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.grid.grid import Grid
from fusion.kernel.texts import Scope, TextBlock, small_numbers
from fusion.labels import ALL
from fusion.types import Array, Int32s, Ints


def count_listed(texts: TextBlock, grid: Grid, view: str, groups: tuple[str, ...], scope: Scope) -> Int32s:
    """[text, column]: of the grid and, behind its columns, of every single retriever. Nothing is ranked for it."""
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
                sizes[chosen] = _count(lists.start, lists.stop, label, lists.group, group, np.array(chosen))
            listed[here, column] = sizes[chosen][here]
    return listed


@compiled
def _count(start: Ints, stop: Ints, label: Int32s, groups: Array, group: int, lists: Ints) -> Ints:
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
