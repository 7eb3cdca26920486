"""New texts that a night labels with the model in use, and what moved in what they are assigned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from jobs.engines.choose import choose_engine
from jobs.nights.drift import GROUP_SHARE, LABELS_PER_TEXT, UNLABELLED_TEXTS, Movement, Quantity
from jobs.prediction.model import KeptModel, load
from jobs.prediction.predict import new_texts
from jobs.settings.config import Config
from udfs.prediction.model import predict_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LabelledTexts:
    """The new texts of a night, with the labels that they were assigned."""

    texts: int
    """How many there are; some may have no label."""
    rows: pa.Table
    """One row per text and label: model, text_id, label, probability."""
    quantities: Mapping[Quantity, float]
    """What is watched about them."""


def label_new_texts(spark: SparkSession | None, config: Config) -> LabelledTexts | None:
    """The labels of the night's new texts; None if no texts or no model are named."""
    settings = config.nightly.predict
    if settings.model is None or settings.texts is None:
        return None
    kept = load(settings.model)
    engine = choose_engine(config, [settings.texts], spark)
    texts = new_texts(engine, settings.texts)
    step = predict_rows(kept.model, kept.names, kept.assigning, texts.ids)
    predictions = engine.collect(engine.map(texts.rows, step))
    predictions = predictions.sort_by([(name, "ascending") for name in ("place", "text_id", "rank")])
    columns = {
        "model": pa.array([kept.fingerprint] * len(predictions), pa.string()),
        "text_id": predictions["text_id"].cast(pa.string()),
        "label": predictions["label"],
        "probability": predictions["probability"],
    }
    rows = pa.table(columns)
    return LabelledTexts(texts.count, rows, dict(_quantities(kept, rows, texts.count)))


def _quantities(kept: KeptModel, rows: pa.Table, texts: int) -> Iterator[tuple[Quantity, float]]:
    yield Quantity(LABELS_PER_TEXT), len(rows) / max(texts, 1)
    yield Quantity(UNLABELLED_TEXTS), 1 - pc.count_distinct(rows["text_id"]).as_py() / max(texts, 1)
    number = pc.index_in(rows["label"], value_set=kept.labels["label"].combine_chunks())
    of_row = kept.labels["label_group"].take(number).to_pylist()
    for group in sorted(set(kept.labels["label_group"].to_pylist())):
        yield Quantity(GROUP_SHARE, label_group=group), of_row.count(group) / max(len(rows), 1)


def assigned_drift(before: pa.Table | None, labelled: LabelledTexts, allowed: float | None) -> list[Movement]:
    """What is watched about the labels of new texts, compared with the baseline's rows of the table `drift`: the mean
    number of labels by its ratio, shares by their difference."""
    rows = before.to_pylist() if before is not None else []
    then = {Quantity(*(row[name] for name in Quantity._fields)): row["value"] for row in rows}
    movements = []
    for quantity, value in labelled.quantities.items():
        was, change = then.get(quantity), None
        if was is not None:
            change = abs(value - was)
            if quantity.kind == LABELS_PER_TEXT and change:
                change /= max(was, value)
        movements.append(Movement(quantity, value, change, allowed))
    return movements
