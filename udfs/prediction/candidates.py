"""The candidates of judged texts with their fused scores, on which a model's calibration is fitted."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fusion.grid.grid import Grid
from fusion.kernel.texts import pool_views
from fusion.labels import ALL
from fusion.models.strategies import DEPLOYED
from fusion.types import Array, Ints
from udfs.counter import id_keys
from udfs.fuse import FusionPlan
from udfs.problems import Problems
from udfs.texts import Batch, Work
from udfs.tuning import TrainTexts, prepared

CANDIDATES_SCHEMA = pa.schema(
    [
        ("text", pa.int64()),
        ("label_group", pa.int8()),
        ("score", pa.float32()),
        ("relevant", pa.bool_()),
        ("texts", pa.int64()),
        ("relevant_labels", pa.int64()),
        ("problems", pa.string()),
    ]
)
"""Candidates of judged texts. Each batch ends with a row of its number of texts and of their relevant labels."""


def candidate_scores(plan: FusionPlan, train_texts: TrainTexts | None) -> Work:
    """The work of an engine on judged texts: the fused score of every candidate, and whether it is relevant."""
    grid = Grid(plan.cells, plan.layout.retrievers, plan.policies, plan.learned, plan.strategies)

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from _scored(batch, plan, grid)
        if problems:
            yield pa.RecordBatch.from_pylist([{"problems": problems.to_json()}], CANDIDATES_SCHEMA)

    return prepared(run, None, train_texts)


def text_keys(text_id: pa.Array, fold: Array | int) -> Ints:
    """A number for each text of a fold: a text may be a validation text of several folds."""
    return id_keys(text_id) * np.int64(31) + fold


def _scored(batch: Batch, plan: FusionPlan, grid: Grid) -> Iterator[pa.RecordBatch]:
    keys = text_keys(batch.text_id, batch.fold)
    for first, block in batch.texts.blocks():
        ((view,),) = pool_views(block, (ALL,), plan.layout.group_names, plan.scope, keep_all=True)
        columns_of = dict(grid.fused(view.pools, view.normalized))
        fused = columns_of[grid.column_of[DEPLOYED]]
        pools = view.pools
        relevant = np.zeros(len(pools.label), np.bool_)
        relevant[view.relevant_candidate] = True
        columns = {
            "text": keys[np.repeat(pools.source, np.diff(pools.offset)) + first],
            "label_group": pools.group if len(pools.group) else np.zeros(len(pools.label), np.int8),
            "score": fused.astype(np.float32),
            "relevant": relevant,
        }
        yield pa.RecordBatch.from_pydict(
            {name: pa.array(columns.get(name, [None] * len(relevant)), kind) for name, kind in _types()}
        )
    relevant_labels = int((batch.texts.relevant.stop - batch.texts.relevant.start).sum())
    counts = {"texts": len(batch.texts), "relevant_labels": relevant_labels}
    yield pa.RecordBatch.from_pylist([counts], CANDIDATES_SCHEMA)


def _types() -> Iterator[tuple[str, pa.DataType]]:
    return ((field.name, field.type) for field in CANDIDATES_SCHEMA)
