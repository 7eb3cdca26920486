"""Fusion inside Spark: list rows in, fused lists out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fusion.grid import Cell, Grid
from fusion.pools import Relevant
from fusion.ranking import top
from fusion.texts import Contest, Scope, contests
from fusion.types import Singles
from udfs.arrays import Work
from udfs.layout import Layout, Problems
from udfs.lists import Batch, report_repeated

FUSED_SCHEMA = (
    "fold int, normalization string, fusion string, text_id {text_type}, label_group string, "
    "label_ids array<{label_type}>, scores array<float>, problems string"
)


@dataclass(frozen=True)
class FusionPlan:
    """What is to be fused, as the workers get it."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    top: int


def fuse_lists(plan: FusionPlan) -> Work:
    """The work of an engine: one row a text, cell and label group."""
    grid = Grid(plan.cells)

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _fused(batch, plan, grid, problems)
        if problems:
            yield pa.RecordBatch.from_pydict({"problems": pa.array([problems.to_json()], pa.string())})

    return run


def _fused(batch: Batch, plan: FusionPlan, grid: Grid, problems: Problems) -> Iterator[pa.RecordBatch]:
    nothing = np.zeros(len(batch.texts), np.int64)
    batch.texts.relevant = Relevant(nothing, nothing, np.empty(0, np.int32))
    for first, block in batch.texts.blocks():
        for shared in contests(block, plan.views, plan.layout.group_names, plan.scope, keep_all=True):
            pools = shared[0].pools
            if len(pools.repeated):
                report_repeated(batch, pools.repeated + first, plan.layout, problems)
                return
            for column, fused in grid.fused(pools, shared[0].normalized):
                for contest in shared:
                    lists = _lists(batch, first, contest, fused, plan.top)
                    for cell in (cell for cell in grid.cells if grid.column_of[cell] == column):
                        yield _with_cell(lists, cell)


def _lists(batch: Batch, first: int, contest: Contest, fused: Singles, n: int) -> pa.RecordBatch:
    """The best labels of every text that has candidates in this view."""
    scores = contest.take(fused)
    chosen, begin = top(scores, contest.offset, n)
    candidate = chosen if contest.member is None else contest.member[chosen]
    filled = np.flatnonzero(np.diff(begin))
    offsets = pa.array(np.append(begin[filled], begin[-1]), pa.int32())
    text = contest.pools.source[filled] + first
    return pa.RecordBatch.from_pydict(
        {
            "fold": pa.array(batch.fold[text], pa.int32()),
            "text_id": batch.text_id.take(pa.array(text)),
            "label_group": pa.array([contest.view] * len(text), pa.string()),
            "label_ids": pa.ListArray.from_arrays(offsets, batch.decode(contest.pools.label[candidate])),
            "scores": pa.ListArray.from_arrays(offsets, pa.array(scores[chosen], pa.float32())),
        }
    )


def _with_cell(lists: pa.RecordBatch, cell: Cell) -> pa.RecordBatch:
    rows = len(lists)
    return (
        lists.append_column("normalization", pa.array([cell.normalization] * rows, pa.string()))
        .append_column("fusion", pa.array([cell.fusion] * rows, pa.string()))
        .append_column("problems", pa.nulls(rows, pa.string()))
        .select(["fold", "normalization", "fusion", "text_id", "label_group", "label_ids", "scores", "problems"])
    )
