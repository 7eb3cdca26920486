"""How a model comes to the labels of one text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import Cell
from fusion.labels import ALL
from fusion.models.models import ChosenCell
from fusion.models.strategies import DEPLOYED
from fusion.retrieval.neighbours import Neighbours
from fusion.retrieval.ranked import Ranked
from jobs.evaluation.model_file import how
from jobs.prediction.model import KeptModel
from udfs.fuse import TextPlan, explain_text
from udfs.prediction.model import Assigning, list_table, prediction_rows

MOST_NEIGHBOURS = 3
"""Training texts that are named per label and retriever."""
FROM_FUSION = ("rank", "label_id", "relevant", "fused")
"""Columns of explained candidates that predictions have under other names, or not at all."""


@dataclass(frozen=True)
class ExplainedLabels:
    """The labels that a text is given, and how each came about."""

    text: str
    cell: Cell | None
    """What fuses; None where a learned model does."""
    how: str
    """How a learned model makes scores; empty for a cell."""
    retrievers: tuple[str, ...]
    """Those whose lists are fused."""
    table: pa.Table
    """One row per label, best first: rank, label, name, score, probability, and per retriever NAME_rank, NAME_score and
    NAME_normalized (under a learned model: what the retriever adds to the score)."""
    neighbours: pa.Table
    """One row per label and training text that carries it, best first: label, retriever, text_id, score."""


def explain_labels(kept: KeptModel, text: str, assigning: Assigning) -> ExplainedLabels:
    """The labels of a text as `predict` gives them, with what every retriever had to do with it."""
    model, fusion = kept.model, kept.fusion.of(ALL)
    cell = fusion.cell if isinstance(fusion, ChosenCell) else None
    lists = model.lists([text])
    labelled = model.assigned(model.fuser(lists, 1), assigning)
    predictions = pa.Table.from_batches([prediction_rows(labelled, pa.array([0]), kept.names)]).drop_columns("text_id")
    table, retrievers = _with_parts(predictions, pa.array(labelled.label, pa.int32()), lists, kept)
    near = _neighbour_rows(
        model.neighbours(text), dict(zip(labelled.label, predictions["label"].to_pylist(), strict=True))
    )
    ids = kept.text_ids
    near = near.set_column(2, "text_id", ids.take(near["text_id"]))
    return ExplainedLabels(
        text, cell, "" if isinstance(fusion, ChosenCell) else how(fusion.to_json()), retrievers, table, near
    )


def _with_parts(
    predictions: pa.Table, labels: pa.Array, lists: list[Ranked], kept: KeptModel
) -> tuple[pa.Table, tuple[str, ...]]:
    """Predictions with the ranks and scores in the list of every retriever, and the retrievers that are fused."""
    fuser, fusion = kept.model.fuser, kept.fusion
    plan, scored = fuser.plan, fusion.of(ALL)
    text_plan = TextPlan(
        layout=plan.layout,
        cell=scored.cell if isinstance(scored, ChosenCell) else DEPLOYED,
        view=ALL,
        scope=plan.scope,
        policies=plan.policies,
        model=None if isinstance(scored, ChosenCell) else scored,
        train_texts=fuser.train_texts,
    )
    rows = list_table(lists, len(plan.layout.slots), 1)
    explained = explain_text(rows, text_plan) if len(rows) else []
    if not explained:
        return predictions, plan.layout.retrievers
    (of_text,) = explained
    candidates = of_text.candidates
    candidates = candidates.take(pc.index_in(labels, value_set=candidates["label_id"].combine_chunks()))
    for name in candidates.column_names:
        if name not in FROM_FUSION:
            predictions = predictions.append_column(name, candidates[name])
    return predictions, of_text.retrievers


def _neighbour_rows(near: Mapping[str, Neighbours], labels: Mapping[int, str]) -> pa.Table:
    """The training texts, by their places, that carry the labels of a text."""
    rows: list[dict[str, Any]] = [
        {"label": label, "retriever": retriever, "text_id": text, "score": score}
        for number, label in labels.items()
        for retriever, found in near.items()
        for text, score in found.carrying(number, MOST_NEIGHBOURS)
    ]
    types = [("label", pa.string()), ("retriever", pa.string()), ("text_id", pa.int64()), ("score", pa.float32())]
    return pa.Table.from_pylist(rows, pa.schema(types))
