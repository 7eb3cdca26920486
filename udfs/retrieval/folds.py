"""What belongs to one fold, as a worker reads it from storage: training and validation texts, never test texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fusion.retrieval.contrastive import LabelSets
from fusion.types import Array
from udfs.stores.cache import client_of

EVERY_TEXT = -1
"""The fold in which all texts are training texts."""


@dataclass(frozen=True)
class FoldSource:
    """Where a worker finds what belongs to one fold."""

    fold: int
    prepared: str


def read_rows(uri: str, columns: Sequence[str], where: Any = None) -> pa.Table:
    """Some columns and rows of a Parquet folder."""
    filesystem, path = client_of(uri)
    return ds.dataset(path, filesystem=filesystem, format="parquet").to_table(list(columns), filter=where)


VALIDATION_TEXTS = 5000
"""Texts on which the end of training is decided, at most."""


def role_texts(source: FoldSource, role: str, most: int | None = None) -> pa.Array:
    """The ids of the texts that have a role in the fold, ascending; if they are too many, evenly spread ones."""
    if source.fold == EVERY_TEXT:
        ids = read_rows(f"{source.prepared}/samples.parquet", ["text_id"])["text_id"].combine_chunks()
        return ids.take(pc.sort_indices(ids)) if role == "train" else ids.slice(0, 0)
    wanted = (ds.field("fold") == source.fold) & (ds.field("role") == role)
    ids = read_rows(f"{source.prepared}/folds.parquet", ["text_id"], wanted)["text_id"].combine_chunks()
    ids = ids.take(pc.sort_indices(ids))
    return ids.take(pa.array(range(0, len(ids), -(-len(ids) // most)))) if most and len(ids) > most else ids


def label_sets(source: FoldSource, ids: pa.Array) -> LabelSets:
    """The labels of some texts, in the order of the ids, which are ascending."""
    rows = read_rows(f"{source.prepared}/samples.parquet", ["text_id", "label_ids"], ds.field("text_id").isin(ids))
    rows = rows.sort_by("text_id").combine_chunks()
    sizes = pc.list_value_length(rows["label_ids"]).to_numpy()
    labels = pc.list_flatten(rows["label_ids"]).to_numpy().astype(np.int64)
    return LabelSets(np.concatenate(([0], np.cumsum(sizes))), labels)


@dataclass(frozen=True)
class LabelledTexts:
    """Texts, ascending by id, and the labels that each is known to have."""

    ids: Array
    texts: list[str]
    known: LabelSets


@dataclass(frozen=True)
class LabelWords:
    """What is known of the labels apart from their texts; label n is entry n everywhere."""

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


def read_label_groups(prepared: str) -> Array:
    """The group of every label, in the order of their ids."""
    rows = read_rows(f"{prepared}/labels.parquet", ["label_id", "label_group"]).sort_by("label_id")
    return np.array(rows["label_group"].to_pylist())


def label_words(rows: pa.RecordBatch, parts: Sequence[str], separator: str) -> pa.Array:
    """What labels are called: the given columns, one after the other; several names with a comma between them."""
    columns = {name: rows[name].to_pylist() for name in parts}
    texts = []
    for row in range(rows.num_rows):
        words = [columns[name][row] or "" for name in parts]
        flat = [", ".join(filter(None, word)) if isinstance(word, list) else word for word in words]
        texts.append(separator.join(filter(None, map(str.strip, flat))))
    return pa.array(texts, pa.string())


def _labelled(source: FoldSource, role: str) -> LabelledTexts:
    ids = role_texts(source, role)
    return LabelledTexts(ids.to_numpy(zero_copy_only=False), read_texts(source, ids), label_sets(source, ids))


def read_texts(source: FoldSource, ids: pa.Array) -> list[str]:
    """Some texts, in the order of the ids, which are ascending."""
    rows = read_rows(f"{source.prepared}/samples.parquet", ["text_id", "text"], ds.field("text_id").isin(ids))
    return [text or "" for text in rows.sort_by("text_id")["text"].to_pylist()]
