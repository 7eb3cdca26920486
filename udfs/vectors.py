"""Vectors in the workers: read from storage, the label index of a fold built from them, and the index searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.errors import InputError
from fusion.retrieval.contrastive import Training
from fusion.retrieval.projection import Examples, Head, LabelParts, combined, described, train_heads
from fusion.types import Ints, Singles
from udfs.candidate_rows import Batches
from udfs.fold_data import FoldSource, label_sets, read_rows, role_texts
from udfs.storage import readable_folder, writable_folder
from udfs.vector_index import GroupIndex, Index, write_groups

RETRIEVER = "dense"
HEADS_FILE = "heads.npz"


def matrix(vectors: pa.ListArray) -> Singles:
    """Vectors, at least one, as the rows of a matrix."""
    return vectors.flatten().to_numpy().reshape(len(vectors), -1)


def read_vectors(uris: Sequence[str], ids: Ints) -> Singles:
    """The vectors of some ids, which are ascending: one row per id."""
    out, seen = np.empty((0, 0), np.float32), np.zeros(len(ids), np.bool_)
    for uri in uris:
        rows = read_rows(uri, ["id", "vector"], ds.field("id").isin(ids))
        for batch in (batch for batch in rows.to_batches() if len(batch)):
            vectors = matrix(batch["vector"])
            out = out if out.size else np.zeros((len(ids), vectors.shape[1]), np.float32)
            place = np.searchsorted(ids, batch["id"].to_numpy())
            out[place], seen[place] = vectors, True
    if not seen.all():
        first = ", ".join(map(str, ids[~seen][:5]))
        raise InputError(
            f"{len(ids) - seen.sum():,} ids have no vector in {uris[0]} and its neighbours, first: {first}"
        )
    return out


def examples(source: FoldSource, role: str, most: int | None = None) -> Examples:
    """The vectors and labels of the texts that have a role in the fold."""
    ids = role_texts(source, role, most)
    return Examples(read_vectors(source.text_vectors, ids), label_sets(source, ids))


def label_parts(source: FoldSource, count: int, train: Examples | None) -> LabelParts:
    """What is known of the labels. Only training texts are looked at."""
    words = None
    if source.label_vectors:
        some = np.unique(np.concatenate([read_rows(uri, ["id"])["id"].to_numpy() for uri in source.label_vectors]))
        vectors = read_vectors(source.label_vectors, some)
        words = np.zeros((count, vectors.shape[1]), np.float32)
        words[some] = vectors
    return LabelParts(count, words, train)


def train_projection(folder: str, training: Training, validation_texts: int) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that trains the heads of a fold and writes them to `folder`/fold=N."""

    def work(source: FoldSource) -> dict[str, Any]:
        train, validation = examples(source, "train"), examples(source, "validation", validation_texts)
        count = len(read_rows(f"{source.prepared}/labels.parquet", ["label_id"]))
        parts = label_parts(source, count, train if source.train_texts else None)
        done = train_heads(parts, train, validation, training, f"fold {source.fold}")
        with writable_folder(f"{folder}/fold={source.fold}") as place:
            text, label = done.heads.text, done.heads.label
            np.savez(
                place / HEADS_FILE,
                text=text.weights,
                text_bias=text.bias,
                label=label.weights,
                label_bias=label.bias,
            )
        return {"mrr": done.mrr, "loss": done.losses, "best": done.best}

    return work


def read_heads(place: Path) -> tuple[Head, Head]:
    """The text head and the label head."""
    with np.load(place / HEADS_FILE) as saved:
        return Head(saved["text"], saved["text_bias"]), Head(saved["label"], saved["label_bias"])


def build_index(folder: str, index: Index, fingerprint: str) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that writes the label vectors of a fold to `folder`/fold=N, by label group.

    `fingerprint` is that of the heads, of which a machine may have kept older ones.
    """

    def work(source: FoldSource) -> dict[str, Any]:
        labels = read_rows(f"{source.prepared}/labels.parquet", ["label_id", "label_group"]).sort_by("label_id")
        train = examples(source, "train") if source.train_texts else None
        parts = label_parts(source, len(labels), train).all()
        known = np.zeros(len(labels), np.bool_)
        known[described(parts)] = True
        if source.model is None:
            vectors = combined(parts)
        else:
            vectors = read_heads(readable_folder(source.model, fingerprint))[1](np.hstack(parts))
        with writable_folder(f"{folder}/fold={source.fold}") as place:
            return write_groups(place, np.array(labels["label_group"].to_pylist()), known, vectors, index)

    return work


@dataclass(frozen=True)
class Search:
    """A search of the indexes of all folds."""

    index: str
    fingerprint: str
    """That of the index: a worker that has read another one reads again."""
    groups: tuple[str, ...]
    heads: str | None
    top: int
    effort: int
    exact: bool = False


@lru_cache(maxsize=1)
def open_fold(search: Search, fold: int) -> tuple[Head | None, dict[str, GroupIndex]]:
    """The text head and the indexes of a fold, read once per Python worker."""
    place = readable_folder(f"{search.index}/fold={fold}", search.fingerprint)
    head = None
    if search.heads is not None:
        head = read_heads(readable_folder(f"{search.heads}/fold={fold}", search.fingerprint))[0]
    return head, {group: GroupIndex(place, group, search.effort, search.exact) for group in search.groups}


def search_labels(search: Search) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (fold, text_id, vector), the folds together: the ranked labels of each text."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            folds = batch["fold"].to_numpy()
            for fold in np.unique(folds):
                yield from lists_of(batch.filter(pa.array(folds == fold)), int(fold))

    def lists_of(batch: pa.RecordBatch, fold: int) -> Batches:
        head, indexes = open_fold(search, fold)
        queries = matrix(batch["vector"])
        queries = np.ascontiguousarray(queries if head is None else head(queries))
        for group, index in indexes.items():
            labels, scores, sizes = index.search(queries, search.top)
            offsets = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
            columns = {
                "fold": pa.array(np.full(len(batch), fold), pa.int32()),
                "retriever": pa.array([RETRIEVER] * len(batch), pa.string()),
                "text_id": batch["text_id"],
                "label_group": pa.array([group] * len(batch), pa.string()),
                "label_ids": pa.ListArray.from_arrays(offsets, pa.array(labels, pa.int32())),
                "scores": pa.ListArray.from_arrays(offsets, pa.array(scores, pa.float32())),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return run
