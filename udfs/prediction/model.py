"""A model in the workers: labels are ranked, rankings fused, scores become probabilities, and labels are assigned.

It is opened once per process. A text's labels depend on this text alone, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from fusion.labels import ALL
from fusion.models.calibration import Calibration, group_probabilities
from fusion.retrieval.neighbours import Neighbours
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Floats, Ints
from udfs.fuse import FusionPlan, fuse_lists
from udfs.list_arrays import LIST_ROW
from udfs.prediction.texts import PLACE, TEXT, TEXT_ID
from udfs.problems import Problems
from udfs.retrieval.encode import MODEL_FOLDER
from udfs.retrieval.pieces import MODULE, Pieces
from udfs.retrieval.retriever import CHUNK, ComparesTexts, Encoding, Retriever
from udfs.retrieval.retriever import Model as RetrieverModel
from udfs.steps import Batches, Step
from udfs.stores.cache import readable_folder
from udfs.texts import Work, read_texts
from udfs.tuning import TrainTexts, prepared


@dataclass(frozen=True)
class Assigning:
    """How many labels a text is given: at most `top`, with at least the threshold as probability."""

    top: int
    threshold: float = 0.0


@dataclass(frozen=True)
class Labelled:
    """One entry per text and assigned label, by text, best first."""

    text: Ints
    """The place of the text."""
    rank: Ints
    """From 1."""
    label: Array
    score: Array
    probability: Floats


@dataclass(frozen=True)
class Fuser:
    """Fuses the lists of texts that come straight from retrievers, exactly as lists that were written are fused."""

    plan: FusionPlan
    train_texts: TrainTexts | None = None

    @cached_property
    def _work(self) -> Work:
        return prepared(fuse_lists(self.plan), None, self.train_texts)

    def __call__(self, lists: Sequence[Ranked], texts: int) -> pa.Table:
        """The fused lists of all labels: text_id (the place of the text), label_ids and scores, by text. A text without
        a candidate has none."""
        rows = list_table(lists, len(self.plan.layout.slots), texts)
        problems = Problems()
        batch = read_texts(rows, self.plan.layout, problems) if len(rows) else None
        batches = [] if batch is None else list(self._work(iter([batch]), problems))
        if problems:
            raise problems.error()
        return pa.Table.from_batches(batches, self.plan.schema).select(["text_id", "label_ids", "scores"])


def list_table(lists: Sequence[Ranked], groups: int, texts: int) -> pa.Table:
    """The lists of several retrievers as list rows, by text. Empty lists are left out, as they are in files."""
    size = np.concatenate([np.diff(ranked.offset) for ranked in lists])
    # Row [retriever, text, group], taken text by text; its list code is retriever * groups + group.
    place = np.arange(len(size)).reshape(len(lists), texts, groups).transpose(1, 0, 2).reshape(texts, -1)
    code = np.tile(np.arange(len(lists) * groups, dtype=np.int32), texts)
    text = np.repeat(np.arange(texts), len(lists) * groups)
    order = place.ravel()
    kept = size[order] > 0
    offset = pa.array(np.concatenate(([0], np.cumsum(size))), pa.int32())
    columns = [
        pa.ListArray.from_arrays(offset, pa.array(np.concatenate(values))).take(pa.array(order[kept]))
        for values in ([ranked.item for ranked in lists], [ranked.score for ranked in lists])
    ]
    about = [pa.array(text[kept]), pa.array(np.zeros(kept.sum(), np.int32)), pa.array(code[kept])]
    return pa.table(dict(zip(LIST_ROW, [*about, *columns], strict=True)))


@dataclass(frozen=True)
class Model:
    """What labels texts, as workers get it: retrievers, where their models are, fusion and calibration."""

    folder: str
    fingerprint: str
    retrievers: tuple[Retriever, ...]
    fuser: Fuser
    calibrations: Mapping[str, Calibration]
    """By label group."""

    def label(self, texts: Sequence[str], assigning: Assigning) -> Labelled:
        """The labels of texts."""
        return self.assigned(self.fuser(self.lists(texts), len(texts)), assigning)

    def lists(self, texts: Sequence[str]) -> list[Ranked]:
        """The lists of every retriever. Texts are encoded once for all retrievers that read the same encoding."""
        ranking = opened(self.folder, self.fingerprint, self.retrievers)
        encoded = {encoding: encoding(list(texts)) for encoding in dict.fromkeys(encoding for encoding, _ in ranking)}
        return [model.rank(encoded[encoding]) for encoding, model in ranking]

    def neighbours(self, text: str) -> dict[str, Neighbours]:
        """By retriever, the training texts that a text resembles, where labels are found by them."""
        ranking = opened(self.folder, self.fingerprint, self.retrievers)
        near = {
            retriever.name: model.neighbours(encoding([text])) if isinstance(model, ComparesTexts) else None
            for retriever, (encoding, model) in zip(self.retrievers, ranking, strict=True)
        }
        return {name: texts for name, texts in near.items() if texts is not None}

    def assigned(self, fused: pa.Table, assigning: Assigning) -> Labelled:
        """From fused lists to labels with probabilities. The order is that of the fused scores."""
        labels, scores = fused["label_ids"].combine_chunks(), fused["scores"].combine_chunks()
        size = labels.value_lengths().to_numpy().astype(np.int64)
        label, score = labels.flatten().to_numpy(), scores.flatten().to_numpy()
        groups = self.fuser.plan.layout.groups
        group, names = (groups.lookup(pa.array(label)), groups.names) if groups else (np.zeros(len(label)), (ALL,))
        probability = group_probabilities(score, group, names, self.calibrations)
        likely = probability >= assigning.threshold if assigning.threshold > 0 else np.ones(len(label), np.bool_)
        # The rank of a label among those of its text that are likely enough.
        count = np.cumsum(likely)
        first = np.repeat(np.concatenate(([0], count))[np.cumsum(size) - size], size)
        rank = count - first
        kept = likely & (rank <= assigning.top)
        text = np.repeat(fused["text_id"].to_numpy(), size)
        return Labelled(text[kept], rank[kept], label[kept], score[kept], probability[kept])


@lru_cache(maxsize=4)
def opened(folder: str, fingerprint: str, retrievers: tuple[Retriever, ...]) -> list[tuple[Encoding, RetrieverModel]]:
    """The encodings and models of all retrievers, opened once per process."""
    place = readable_folder(folder, fingerprint)
    return [(_encoding(it, place / it.name), it.open(place / it.name)) for it in retrievers]


def _encoding(retriever: Retriever, place: Path) -> Encoding:
    """How texts are encoded for a retriever: with the tokenizer that is kept with what it has learned, if there is one,
    so that the pretrained model is not needed any more."""
    encoding = retriever.encoding
    if isinstance(encoding, Pieces):
        return Pieces(replace(encoding.start, model=str(place / MODEL_FOLDER / MODULE)))
    return encoding


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
