"""Vectors in the workers: read from storage, indexed by label group or training text, and searched."""

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
from fusion.retrieval.contrastive import Training, dense_package
from fusion.retrieval.projection import Examples, Head, LabelParts, combined, described, rank_rows, train_heads
from fusion.types import Array, Ints, Singles
from udfs.lists import Batches
from udfs.retrieval.folds import FoldSource, label_sets, read_rows, role_texts
from udfs.stores.cache import readable_folder, writable_folder

EXACT, HNSW = "exact", "hnsw"
"""How the labels of a group are searched."""
MARGIN = 16
"""Labels searched beyond the wanted ones, so that rounding inside faiss cannot decide who is among them."""


HNSW_FROM = 200_000
"""Labels of a group from which on their search is approximate."""


@dataclass(frozen=True)
class Index:
    """How the labels of a fold are indexed: HNSW from so many labels of a group on, None for never."""

    hnsw_from: int | None
    links: int = 32
    build: int = 100


def write_groups(place: Path, groups: Array, known: Array, vectors: Singles, index: Index) -> dict[str, Any]:
    """Write the vectors of the known labels to a folder, by label group; how large and how searched each group is."""
    report: dict[str, Any] = {}
    for group in np.unique(groups):
        chosen = np.flatnonzero(known & (groups == group))
        np.save(place / f"{group}.labels.npy", chosen.astype(np.int32))
        np.save(place / f"{group}.vectors.npy", vectors[chosen])
        approximate = index.hnsw_from is not None and len(chosen) >= index.hnsw_from
        report[str(group)] = {"labels": len(chosen), "search": HNSW if approximate else EXACT}
        if approximate:
            _write_hnsw(vectors[chosen], index, place / f"{group}.hnsw")
    return report


def _write_hnsw(vectors: Singles, index: Index, path: Path) -> None:
    faiss = dense_package("faiss")
    # With several threads the graph would depend on who comes first.
    faiss.omp_set_num_threads(1)
    graph = faiss.IndexHNSWFlat(vectors.shape[1], index.links, faiss.METRIC_INNER_PRODUCT)
    graph.hnsw.efConstruction = index.build
    graph.add(vectors)
    faiss.write_index(graph, str(path))


class GroupIndex:
    """The labels of one group. Vectors are mapped, so the workers of a machine share them."""

    def __init__(self, place: Path, group: str, effort: int, exact: bool) -> None:
        self.faiss = dense_package("faiss")
        self.faiss.omp_set_num_threads(1)
        self.labels = np.load(place / f"{group}.labels.npy")
        self.vectors = np.asarray(np.load(place / f"{group}.vectors.npy", mmap_mode="r"))
        graph = place / f"{group}.hnsw"
        self.graph = None if exact or not graph.exists() else self.faiss.read_index(str(graph))
        self.effort = effort

    def search(self, queries: Singles, top: int) -> tuple[Array, Array, Ints]:
        """The nearest labels of all queries and their cosines, best first, and the number of each query's."""
        size = min(top, len(self.labels))
        if not size or not len(queries):
            return np.empty(0, np.int32), np.empty(0, np.float32), np.zeros(len(queries), np.int64)
        best, scores = self._nearest(queries, size, min(size + MARGIN, len(self.labels)))
        there = best >= 0
        return self.labels[best[there]], scores[there], there.sum(axis=1)

    def _nearest(self, queries: Singles, size: int, wanted: int) -> tuple[Ints, Singles]:
        if self.graph is not None:
            self.graph.hnsw.efSearch = max(self.effort, 2 * wanted)
            _, rows = self.graph.search(queries, wanted)
            return rank_rows(queries, self.vectors, rows, size)
        inner = self.faiss.METRIC_INNER_PRODUCT
        near, rows = self.faiss.knn(queries, self.vectors, wanted, metric=inner)
        best, scores = rank_rows(queries, self.vectors, rows, size)
        # faiss sums in an order of its own, and picks among equals as it likes. Where the last one found is as good
        # as the last one wanted, up to rounding, there may be more like it.
        doubt = np.flatnonzero(near[:, -1] > near[:, size - 1] - queries.shape[1] * np.finfo(np.float32).eps)
        if len(doubt) and wanted < len(self.labels):
            more = min(4 * wanted, len(self.labels))
            best[doubt], scores[doubt] = self._nearest(np.ascontiguousarray(queries[doubt]), size, more)
        return best, scores


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
    effort: int = 256
    """How many vectors a search of HNSW looks at."""
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
