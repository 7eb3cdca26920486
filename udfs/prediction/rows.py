"""Predictions as rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from udfs.prediction.model import Assigning, Labelled, Model
from udfs.prediction.texts import PLACE, TEXT, TEXT_ID
from udfs.retrieval.retriever import CHUNK
from udfs.steps import Batches, Step


def predictions_schema(ids: pa.DataType) -> pa.Schema:
    """The table of predictions: one row per text and label. A text without a label has no row."""
    return pa.schema(
        [
            ("text_id", ids),
            ("rank", pa.int32()),
            ("label", pa.string()),
            ("name", pa.string()),
            ("score", pa.float32()),
            ("probability", pa.float64()),
        ]
    )


@dataclass(frozen=True)
class LabelNames:
    """What labels are called, by their numbers."""

    labels: pa.Array
    names: pa.Array


def predict_rows(model: Model, names: LabelNames, assigning: Assigning, ids: pa.DataType) -> Step:
    """From rows (text_id, text, place) to rows of predictions, with the place of the text as their last column."""
    schema = predictions_schema(ids).append(pa.field(PLACE, pa.int64()))

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, batch.num_rows, CHUNK):
                rows = batch.slice(begin, CHUNK)
                labelled = model.label([text or "" for text in rows[TEXT].to_pylist()], assigning)
                predictions = prediction_rows(labelled, rows[TEXT_ID].cast(ids), names)
                place = rows[PLACE].take(pa.array(labelled.text))
                yield pa.RecordBatch.from_arrays([*predictions.columns, place], schema=schema)

    return Step(run, schema, heavy=True)


def prediction_rows(labelled: Labelled, ids: pa.Array, names: LabelNames) -> pa.RecordBatch:
    """Assigned labels as rows of predictions."""
    label = pa.array(labelled.label)
    columns = [
        ids.take(pa.array(labelled.text)),
        pa.array(labelled.rank, pa.int32()),
        names.labels.take(label),
        names.names.take(label),
        pa.array(labelled.score, pa.float32()),
        pa.array(labelled.probability, from_pandas=True),
    ]
    return pa.record_batch(columns, schema=predictions_schema(ids.type))
