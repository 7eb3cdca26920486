"""Evaluation inside Spark: list rows in, packed counts (or one text's figures) out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fusion.grid import SINGLE, Cell, Grid
from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.tally import Tally
from fusion.texts import Hits, Scope, find_hits
from udfs.arrays import Work
from udfs.layout import Layout, Problems
from udfs.lists import Batch, report_repeated

COUNTS_SCHEMA = "fold int, places binary, counts binary, problems string"


@dataclass(frozen=True)
class Evaluation:
    """What is to be evaluated, as the workers get it."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    measures: tuple[Measure, ...]

    @property
    def k(self) -> int:
        return max(measure.k for measure in self.measures)

    @property
    def grid(self) -> Grid:
        return Grid(self.cells)

    @property
    def columns(self) -> dict[Cell, int]:
        """The column of every cell and, behind those, of every single retriever."""
        grid = self.grid
        singles = {Cell(SINGLE, name): len(grid.columns) + r for r, name in enumerate(self.layout.retrievers)}
        return {**grid.column_of, **singles}

    @property
    def notes(self) -> list[str]:
        """The names of what is counted beside hits."""
        retrievers = self.layout.retrievers
        return [
            "judged texts",
            "judged texts without candidates",
            "texts with candidates but without judgements",
            *(f"judged texts that {name} returned nothing for" for name in retrievers),
            *(f"lists of {name} whose best score is not positive ('max' has no meaning there)" for name in retrievers),
        ]

    def new_tally(self) -> Tally:
        columns = 1 + max(self.columns.values())
        return Tally(self.views, columns, self.k, len(self.notes))


def count_hits(evaluation: Evaluation) -> Work:
    """The work of an engine: one row of packed counts a fold."""

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        counter = Counter(evaluation, problems)
        for batch in batches:
            counter.add(batch)
        yield from counter.packed()

    return run


def add_counts(evaluation: Evaluation) -> Callable[[pa.Table], pa.Table]:
    """For `applyInArrow` by fold: packed counts added up."""

    def run(table: pa.Table) -> pa.Table:
        tally, problems = unpack(table, evaluation)
        return pa.Table.from_batches([_row(table["fold"][0].as_py(), tally, problems)])

    return run


def unpack(table: pa.Table, evaluation: Evaluation) -> tuple[Tally, Problems]:
    """The sum of packed counts, and the problems that came with them."""
    tally = evaluation.new_tally()
    problems = Problems.from_json(text for text in table["problems"].to_pylist() if text)
    for where, counts in zip(table["places"].to_pylist(), table["counts"].to_pylist(), strict=True):
        tally.unpack(np.frombuffer(where, np.int64), np.frombuffer(counts, np.int64))
    return tally, problems


class Counter:
    """Adds up the hits of many batches, fold by fold."""

    def __init__(self, evaluation: Evaluation, problems: Problems) -> None:
        self.evaluation = evaluation
        self.grid = evaluation.grid
        self.problems = problems
        self.tallies: dict[int, Tally] = {}

    def add(self, batch: Batch) -> None:
        evaluation = self.evaluation
        self._note(batch)
        hits = judged_hits(batch, evaluation, self.grid, self.problems)
        if self.problems:
            return
        relevant_all = batch.texts.relevant_counts(evaluation.layout.group_names, ALL)
        for fold in np.unique(batch.fold):
            tally = self._tally(int(fold))
            here = (batch.fold == fold) & batch.judged
            for v, view in enumerate(evaluation.views):
                relevant = batch.texts.relevant_counts(evaluation.layout.group_names, view)
                counts = here if view == ALL else here & (relevant > 0)
                tally.add_queries(v, relevant_all[counts], relevant[counts])
                mine = here[hits[v].text]
                text = hits[v].text[mine]
                tally.add_hits(v, hits[v].ranks[mine], relevant_all[text], relevant[text])

    def packed(self) -> Iterator[pa.RecordBatch]:
        if self.problems:
            yield _row(-1, None, self.problems)
        else:
            yield from (_row(fold, tally, self.problems) for fold, tally in self.tallies.items())

    def _tally(self, fold: int) -> Tally:
        if fold not in self.tallies:
            self.tallies[fold] = self.evaluation.new_tally()
        return self.tallies[fold]

    def _note(self, batch: Batch) -> None:
        texts = batch.texts
        # The lists of all labels repeat what those of the groups hold.
        slots = [s for s, slot in enumerate(texts.slots) if slot != ALL or len(texts.slots) == 1]
        start, size = texts.start[:, :, slots], (texts.stop - texts.start)[:, :, slots]
        best = np.full(size.shape, -np.inf)
        best[size > 0] = texts.score[start[size > 0]]
        if self.evaluation.scope == "joint":
            best = best.max(axis=2, keepdims=True)
        missing = size.sum(axis=2) == 0
        for fold in np.unique(batch.fold):
            here = batch.fold == fold
            judged = here & batch.judged
            self._tally(int(fold)).notes[:] += [
                judged.sum(),
                (judged & missing.all(axis=1)).sum(),
                (here & ~batch.judged).sum(),
                *missing[judged].sum(axis=0),
                *((best[judged] <= 0) & (best[judged] > -np.inf)).sum(axis=(0, 2)),
            ]


def judged_hits(batch: Batch, evaluation: Evaluation, grid: Grid, problems: Problems) -> list[Hits]:
    """The hits of a batch. Texts nobody judged have no relevant labels, hence none."""
    hits, repeated = find_hits(batch.texts, grid, evaluation.views, evaluation.layout.group_names, evaluation.scope)
    if len(repeated):
        report_repeated(batch, repeated, evaluation.layout, problems)
    return hits


def _row(fold: int, tally: Tally | None, problems: Problems) -> pa.RecordBatch:
    where, counts = tally.packed() if tally and not problems else (np.empty(0, np.int64),) * 2
    return pa.RecordBatch.from_pydict(
        {
            "fold": pa.array([fold], pa.int32()),
            "places": pa.array([where.tobytes()], pa.binary()),
            "counts": pa.array([counts.tobytes()], pa.binary()),
            "problems": pa.array([problems.to_json() if problems else None], pa.string()),
        }
    )
