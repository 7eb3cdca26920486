"""Fusion inside Spark: list rows in, fused lists out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from fusion.grid import Cell, Grid
from fusion.kernel.blocks import PoolView, Scope, pool_views
from fusion.kernel.candidates import DEFAULT, Policies
from fusion.kernel.pools import Relevant
from fusion.kernel.ranking import top
from fusion.learning import Learned
from fusion.tuning.strategies import Strategy
from fusion.types import Singles
from udfs.list_codes import Layout
from udfs.problems import Problems
from udfs.text_batches import Batch, Work, report_repeated

ARROW = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
"""Spark's types of ids, in Arrow."""


@dataclass(frozen=True)
class FusionPlan:
    """What is to be fused, as the workers get it."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    top: int
    text_type: str
    label_type: str
    """The types of the ids, in Spark's words."""
    policies: Policies = DEFAULT
    learned: Mapping[str, Learned] = field(default_factory=dict)
    strategies: Mapping[Cell, Strategy] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        return (
            f"fold int, normalization string, fusion string, text_id {self.text_type}, label_group string, "
            f"label_ids array<{self.label_type}>, scores array<float>, problems string"
        )

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema(
            [
                ("fold", pa.int32()),
                ("normalization", pa.string()),
                ("fusion", pa.string()),
                ("text_id", ARROW[self.text_type]),
                ("label_group", pa.string()),
                ("label_ids", pa.list_(ARROW[self.label_type])),
                ("scores", pa.list_(pa.float32())),
                ("problems", pa.string()),
            ]
        )


def fuse_lists(plan: FusionPlan) -> Work:
    """The work of an engine: one row per text, cell and label group."""
    grid = Grid(plan.cells, plan.layout.retrievers, plan.policies, plan.learned, plan.strategies)

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _fused(batch, plan, grid, problems)
        if problems:
            yield pa.RecordBatch.from_pylist([{"problems": problems.to_json()}], plan.arrow_schema)

    return run


def _fused(batch: Batch, plan: FusionPlan, grid: Grid, problems: Problems) -> Iterator[pa.RecordBatch]:
    nothing = np.zeros(len(batch.texts), np.int64)
    batch.texts.relevant = Relevant(nothing, nothing, np.empty(0, np.int32))
    for first, block in batch.texts.blocks():
        for shared in pool_views(block, plan.views, plan.layout.group_names, plan.scope, keep_all=True):
            pools = shared[0].pools
            if len(pools.repeated):
                report_repeated(batch, pools.repeated + first, plan.layout, problems)
                return
            for column, fused in grid.fused(pools, shared[0].normalized):
                for pool_view in shared:
                    lists = _lists(batch, first, pool_view, fused, plan.top)
                    for cell in (cell for cell in grid.cells if grid.column_of[cell] == column):
                        yield _with_cell(lists, cell, plan.arrow_schema)


def _lists(batch: Batch, first: int, pool_view: PoolView, fused: Singles, n: int) -> dict[str, pa.Array]:
    """The best labels of every text that has candidates in this view."""
    scores = pool_view.take(fused)
    chosen, begin = top(scores, pool_view.offset, n)
    candidate = chosen if pool_view.member is None else pool_view.member[chosen]
    filled = np.flatnonzero(np.diff(begin))
    offsets = pa.array(np.append(begin[filled], begin[-1]), pa.int32())
    text = pool_view.pools.source[filled] + first
    return {
        "fold": pa.array(batch.fold[text], pa.int32()),
        "text_id": batch.text_id.take(pa.array(text)),
        "label_group": pa.array([pool_view.view] * len(text), pa.string()),
        "label_ids": pa.ListArray.from_arrays(offsets, batch.decode(pool_view.pools.label[candidate])),
        "scores": pa.ListArray.from_arrays(offsets, pa.array(scores[chosen], pa.float32())),
    }


def _with_cell(lists: dict[str, pa.Array], cell: Cell, schema: pa.Schema) -> pa.RecordBatch:
    rows = len(lists["fold"])
    names = {"normalization": [cell.normalization] * rows, "fusion": [cell.fusion] * rows, "problems": [None] * rows}
    return pa.RecordBatch.from_pydict({**lists, **names}, schema)
