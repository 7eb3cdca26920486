"""What belongs to one fold, as a worker reads it from storage: training and validation texts, never test texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fusion.errors import XmtcError
from fusion.retrieval.contrastive import LabelSets
from fusion.types import Ints
from udfs.lists import Batches
from udfs.stores.cache import client_of

REPORT_SCHEMA = "fold int, report string, problem string"


@dataclass(frozen=True)
class FoldSource:
    """Where a worker finds what belongs to one fold."""

    fold: int
    prepared: str
    text_vectors: tuple[str, ...]
    label_vectors: tuple[str, ...]
    """Empty if the words of labels do not count."""
    train_texts: bool
    """Whether the mean of a label's training texts is a part of it."""
    model: str | None = None
    """The folder of the heads; None if vectors are searched as they are."""


def over_folds(sources: Sequence[FoldSource], work: Callable[[FoldSource], Any]) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on a column `id` of positions in `sources`: a report of each, or the error it ended with."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for source in (sources[i] for i in batch["id"].to_pylist()):
                report, problem = None, None
                try:
                    report = json.dumps(work(source))
                except XmtcError as error:
                    problem = json.dumps([type(error).__name__, str(error)])
                columns = {"fold": pa.array([source.fold], pa.int32())}
                texts = {"report": pa.array([report], pa.string()), "problem": pa.array([problem], pa.string())}
                yield pa.RecordBatch.from_pydict({**columns, **texts})

    return run


def read_rows(uri: str, columns: Sequence[str], where: Any = None) -> pa.Table:
    """Some columns and rows of a Parquet folder."""
    filesystem, path = client_of(uri)
    return ds.dataset(path, filesystem=filesystem, format="parquet").to_table(list(columns), filter=where)


VALIDATION_TEXTS = 5000
"""Texts on which the end of training is decided, at most."""


def role_texts(source: FoldSource, role: str, most: int | None = None) -> Ints:
    """The ids of the texts that have a role in the fold, ascending; if they are too many, evenly spread ones."""
    wanted = (ds.field("fold") == source.fold) & (ds.field("role") == role)
    ids = np.sort(read_rows(f"{source.prepared}/folds.parquet", ["text_id"], wanted)["text_id"].to_numpy())
    return ids[:: -(-len(ids) // most)] if most and len(ids) > most else ids


def label_sets(source: FoldSource, ids: Ints) -> LabelSets:
    """The labels of some texts, in the order of the ids, which are ascending."""
    rows = read_rows(f"{source.prepared}/samples.parquet", ["text_id", "label_ids"], ds.field("text_id").isin(ids))
    rows = rows.sort_by("text_id").combine_chunks()
    sizes = pc.list_value_length(rows["label_ids"]).to_numpy()
    labels = pc.list_flatten(rows["label_ids"]).to_numpy().astype(np.int64)
    return LabelSets(np.concatenate(([0], np.cumsum(sizes))), labels)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, ascending by id, and the labels that each is known to have."""

    ids: Ints
    texts: list[str]
    known: LabelSets


@dataclass(frozen=True)
class LabelWords:
    """What is known of the labels beside their texts; label n is entry n everywhere."""

    names: list[str]
    alt_names: list[list[str]]
    descriptions: list[str]
    groups: list[str]

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class FoldTexts:
    """All that a retriever may learn from in a fold."""

    fold: int
    train: LabelledTexts
    validation: LabelledTexts
    labels: LabelWords
    settings: Mapping[str, Any]


def read_fold(source: FoldSource, settings: Mapping[str, Any]) -> FoldTexts:
    """The training and validation texts of a fold, and the labels."""
    train, validation = (_labelled(source, role) for role in ("train", "validation"))
    return FoldTexts(source.fold, train, validation, read_label_words(source.prepared), settings)


def read_label_words(prepared: str) -> LabelWords:
    """The words of all labels, in the order of their ids."""
    columns = ["label_id", "name", "alt_names", "description", "label_group"]
    rows = read_rows(f"{prepared}/labels.parquet", columns).sort_by("label_id").to_pydict()
    names, descriptions = ([word or "" for word in rows[column]] for column in ("name", "description"))
    return LabelWords(names, [other or [] for other in rows["alt_names"]], descriptions, rows["label_group"])


def _labelled(source: FoldSource, role: str) -> LabelledTexts:
    ids = role_texts(source, role)
    return LabelledTexts(ids, read_texts(source, ids), label_sets(source, ids))


def read_texts(source: FoldSource, ids: Ints) -> list[str]:
    """Some texts, in the order of the ids, which are ascending."""
    rows = read_rows(f"{source.prepared}/samples.parquet", ["text_id", "text"], ds.field("text_id").isin(ids))
    return [text or "" for text in rows.sort_by("text_id")["text"].to_pylist()]
