"""The evidence of trained fusions: what the lists of each retriever held for the texts that are set apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pyarrow as pa

from fusion.cells import ANY_FOLD
from fusion.grid.grid import Grid
from fusion.grid.trained import Evidence, Learned, ListHits, count_list_hits
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.statistics.signs import blocks_of
from fusion.types import Array, Ints
from udfs.counter import id_keys, unpacked
from udfs.lists import Layout
from udfs.problems import Problems
from udfs.texts import Batch, Work

SHARES = 1_000_003
"""Texts are hashed into this many shares; a prime, which makes them independent of the tests' sign blocks."""

NOTHING = "nothing"


@dataclass(frozen=True)
class Training:
    """Which lists are looked at."""

    grid: ClassVar[Grid] = Grid([])

    layout: Layout
    views: tuple[str, ...]
    """The label groups, or all labels, whose lists are fused."""
    scope: Scope = "group"
    share: float = 0.0
    """The share of the texts that is set apart, by a hash of their ids, for all folds; 0: every judged text counts for
    its fold."""


def set_apart(text_id: pa.Array, share: float) -> Array:
    """Whether each text is set apart for learning."""
    return np.asarray(blocks_of(id_keys(text_id), SHARES) < share * SHARES)


def leaving_out(work: Work, share: float) -> Work:
    """The work without the texts that are set apart."""

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        return work((batch.only(~set_apart(batch.text_id, share)) for batch in batches), problems)

    return run


def count_evidence(training: Training) -> Work:
    """The work of an engine: one row of counts per fold, view, retriever and quantity."""

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        counted: dict[tuple[int, str], Ints] = {}
        for batch in batches:
            for key, numbers in _counts(batch, training):
                before = counted.get(key, np.zeros(0, np.int64))
                total = np.zeros(max(len(before), len(numbers)), np.int64)
                total[: len(before)] += before
                total[: len(numbers)] += numbers
                counted[key] = total
        # Also where nothing was counted there is a row, so that there is a table.
        yield _row(ANY_FOLD, NOTHING, np.zeros(1, np.int64), problems)
        if not problems:
            yield from (_row(fold, part, numbers) for (fold, part), numbers in counted.items())

    return run


def learned_from(counted: pa.Table, training: Training) -> dict[str, Learned]:
    """The evidence about each retriever by view and fold, from all rows of counts."""
    keys = zip(counted["fold"].to_pylist(), counted["part"].to_pylist(), strict=True)
    numbers: dict[tuple[int, str], Ints] = {}
    for key, (places, counts) in zip(keys, unpacked(counted), strict=True):
        if key[1] == NOTHING:
            continue
        numbers[key] = np.zeros(max(1, int(places.max(initial=-1)) + 1), np.int64)
        numbers[key][places] = counts
    nothing = np.zeros(1, np.int64)

    def evidence(fold: int, v: int, r: int) -> Evidence:
        queries, sizes, hits, precision = (
            numbers.get((fold, _part(v, r, quantity)), nothing) for quantity in ListHits._fields
        )
        return Evidence(int(queries[0]), sizes, hits, int(precision[0]))

    folds = sorted({fold for fold, _ in numbers})
    retrievers = range(len(training.layout.retrievers))
    return {
        view: Learned({fold: [evidence(fold, v, r) for r in retrievers] for fold in folds})
        for v, view in enumerate(training.views)
    }


def _counts(batch: Batch, training: Training) -> Iterator[tuple[tuple[int, str], Ints]]:
    groups = training.layout.group_names
    chosen = batch.judged & set_apart(batch.text_id, training.share) if training.share else batch.judged
    fold = np.full(len(chosen), ANY_FOLD) if training.share else batch.fold
    for v, view in enumerate(training.views):
        relevant = batch.texts.relevant_counts(groups, view)
        counted = chosen if view == ALL else chosen & (relevant > 0)
        for number in np.unique(fold[counted]):
            here = counted & (fold == number)
            hits = count_list_hits(batch.texts.lists(view), batch.texts.relevant, here)
            for r, quantity in product(range(len(training.layout.retrievers)), ListHits._fields):
                yield (int(number), _part(v, r, quantity)), np.atleast_1d(getattr(hits, quantity)[r])


def _part(view: int, retriever: int, quantity: str) -> str:
    return f"{view} {retriever} {quantity}"


def _row(fold: int, part: str, numbers: Ints, problems: Problems | None = None) -> pa.RecordBatch:
    # Places are named even if none is left out: without any, a row would mean all of them.
    places = np.flatnonzero(numbers) if numbers.any() else np.arange(min(len(numbers), 1))
    return pa.RecordBatch.from_pydict(
        {
            "fold": pa.array([fold], pa.int32()),
            "part": pa.array([part], pa.string()),
            "places": pa.array([places.tobytes()], pa.binary()),
            "counts": pa.array([numbers[places].tobytes()], pa.binary()),
            "problems": pa.array([problems.to_json() if problems else None], pa.string()),
        }
    )
