"""What moved in the data since the baseline: which labels are frequent, how retrievers agree, how many lists are
empty; and what the model in use assigns to the new texts that a night labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import SINGLE
from jobs.engines.choose import choose_engine
from jobs.evaluation.schemas import RUN_FILE
from jobs.nights.datasets import DatasetResults
from jobs.prediction.model import KeptModel, load
from jobs.prediction.predict import new_texts
from jobs.reporting.formats import input_count_text
from jobs.settings.config import Config
from jobs.settings.nightly import DriftSettings
from jobs.storage.folders import read_object, read_parquet
from udfs.plan import EMPTY_LISTS, JUDGED, per_retriever, split_key
from udfs.prediction.model import predict_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


OVERLAP, LABEL_FREQUENCIES = "overlap", "label_frequencies"
"""How far two retrievers agree, and which labels are frequent. The share of empty lists may drift as well."""

LABELS_PER_TEXT, UNLABELLED_TEXTS, GROUP_SHARE = "labels_per_text", "texts_without_label", "group_share"
ASSIGNED_WORDS = {
    LABELS_PER_TEXT: "mean number of labels of new texts",
    UNLABELLED_TEXTS: "share of new texts without a label",
    GROUP_SHARE: "share of {} labels among those of new texts",
}
"""What is watched of the labels that new texts are assigned, with the label group in it."""


class Quantity(NamedTuple):
    """Something about the data that may drift. What does not apply to its kind is empty."""

    kind: str
    retriever: str = ""
    other: str = ""
    label_group: str = ""

    def __str__(self) -> str:
        """As people read it."""
        if self.kind == OVERLAP:
            return f"overlap of {self.retriever} and {self.other} ({self.label_group} labels)"
        if self.kind == EMPTY_LISTS:
            return f"share of {input_count_text(per_retriever(self.kind, self.retriever))}"
        return ASSIGNED_WORDS.get(self.kind, self.kind.replace("_", " ")).format(self.label_group)


class Movement(NamedTuple):
    """Something about the data: tonight's value, its change since the baseline, and whether that is too much."""

    quantity: Quantity
    value: float | None
    """None: only the baseline has it."""
    change: float | None
    allowed: float | None
    """None: any change is allowed."""

    @property
    def alarm(self) -> bool:
        return self.change is not None and self.allowed is not None and self.change > self.allowed

    def as_row(self) -> dict[str, Any]:
        """A row of the table `drift`: the key of the quantity, its words, and what became of it."""
        figures = {"value": self.value, "change": self.change, "allowed": self.allowed, "alarm": self.alarm}
        return {**self.quantity._asdict(), "quantity": str(self.quantity), **figures}

    def __str__(self) -> str:
        """Of something that moved by too much."""
        return f"{self.quantity} moved by {self.change or 0:.3f}, more than {self.allowed or 0:g}"


def drift(
    before: pa.Table | None, label_counts: pa.Table | None, results: DatasetResults, allowed: DriftSettings
) -> list[Movement]:
    """Tonight's quantities compared with those of the baseline: its rows of the tables `drift` and `label_counts`."""
    rows = before.to_pylist() if before is not None else []
    # A night that was accepted without a retriever is a baseline without it.
    then = {
        Quantity(*(row[name] for name in Quantity._fields)): row["value"]
        for row in rows
        if row["value"] is not None and row["kind"] not in ASSIGNED_WORDS
    }
    movements = [
        Movement(quantity, value, abs(value - then[quantity]) if quantity in then else None, most)
        for quantity, value, most in _quantities(results, allowed)
    ]
    frequencies = Quantity(LABEL_FREQUENCIES)
    # A retriever that is gone takes its quantities with it.
    for quantity in sorted(then.keys() - {movement.quantity for movement in movements} - {frequencies}):
        checked = allowed.overlap if quantity.kind == OVERLAP else allowed.empty_lists
        movements.append(Movement(quantity, None, then[quantity] or 1.0, None if checked is None else 0.0))
    labels = _counts(results.label_counts())
    variation = _total_variation(_counts(label_counts), labels) if label_counts is not None else None
    return [*movements, Movement(frequencies, float(len(labels)), variation, allowed.labels)]


def idle_drift(movements: Sequence[Movement], results: DatasetResults, allowed: DriftSettings) -> list[str]:
    """Guards of the drift that have nothing to look at, a sentence each."""
    metrics = results.metrics()
    retrievers = metrics.filter(pc.equal(metrics["normalization"], SINGLE))["fusion"].unique()
    kinds = {movement.quantity.kind for movement in movements}
    if allowed.overlap is None or len(retrievers) < 2 or OVERLAP in kinds:
        return []
    return [
        "nightly.drift.overlap: the results do not say how far the retrievers agree: set evaluate.details to true, or "
        "this to null"
    ]


def _quantities(results: DatasetResults, allowed: DriftSettings) -> Iterator[tuple[Quantity, float, float | None]]:
    agreement = read_parquet(f"{results.path}/agreement.parquet")
    for row in agreement.to_pylist() if agreement is not None else []:
        if row["quantity"] == OVERLAP:
            quantity = Quantity(OVERLAP, row["retriever"], row["other"], row["label_group"])
            yield quantity, row["value"], allowed.overlap
    counts = read_object(f"{results.path}/{RUN_FILE}").get("input_counts", {})
    for key, count in counts.items():
        kind, retriever = split_key(key)
        if kind == EMPTY_LISTS:
            yield Quantity(EMPTY_LISTS, retriever), count / max(counts[JUDGED], 1), allowed.empty_lists


def _counts(table: pa.Table) -> dict[str, int]:
    return dict(zip(table["label"].to_pylist(), table["texts"].to_pylist(), strict=True))


def _total_variation(before: Mapping[str, int], after: Mapping[str, int]) -> float:
    """Half the sum of the differences between two distributions: 0 if they are the same, 1 if they share nothing."""
    sums = sum(before.values()), sum(after.values())
    if not all(sums):
        return 1.0
    labels = sorted({*before, *after})
    return sum(abs(before.get(label, 0) / sums[0] - after.get(label, 0) / sums[1]) for label in labels) / 2


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
    return LabelledTexts(texts.count, rows, dict(_assigned_quantities(kept, rows, texts.count)))


def _assigned_quantities(kept: KeptModel, rows: pa.Table, texts: int) -> Iterator[tuple[Quantity, float]]:
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
