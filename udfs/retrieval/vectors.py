"""Vectors in the workers: read from storage, indexed by label group or training text, and searched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from fusion.errors import InputError
from fusion.retrieval.contrastive import LabelSets, Training, dense_package
from fusion.retrieval.exact import greatest_products
from fusion.retrieval.neighbours import Neighbours, TextLabels, label_scores
from fusion.retrieval.projection import Examples, Head, LabelParts, combined, described, rank_rows, train_heads
from fusion.retrieval.ranked import Ranked, interleaved
from fusion.types import Array, Ints, Singles
from udfs.retrieval.encode import Encoder, Vectors
from udfs.retrieval.folds import VALIDATION_TEXTS, FoldSource, label_sets, read_label_groups, read_rows, role_texts
from udfs.retrieval.retriever import Scoring, fold_folder, mapped
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

    def __init__(self, place: Path, group: str, effort: int, exact: bool = False) -> None:
        self.labels = np.load(place / f"{group}.labels.npy")
        self.vectors = mapped(place, f"{group}.vectors")
        graph = place / f"{group}.hnsw"
        self.graph = None if exact or not graph.exists() else dense_package("faiss").read_index(str(graph))
        self.effort = effort

    def search(self, queries: Singles, top: int) -> Ranked:
        """The nearest labels of all queries, best first, and their cosines."""
        size = min(top, len(self.labels))
        if not size or not len(queries):
            return Ranked(np.zeros(len(queries) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        best, scores = self._nearest(queries, size, min(size + MARGIN, len(self.labels)))
        there = best >= 0
        return Ranked(np.concatenate(([0], np.cumsum(there.sum(axis=1)))), self.labels[best[there]], scores[there])

    def _nearest(self, queries: Singles, size: int, wanted: int) -> tuple[Ints, Singles]:
        if self.graph is not None:
            # With threads of its own, it would disturb the other tasks.
            dense_package("faiss").omp_set_num_threads(1)
            self.graph.hnsw.efSearch = max(self.effort, 2 * wanted)
            _, rows = self.graph.search(queries, wanted)
            return rank_rows(queries, self.vectors, rows, size)
        near, rows = greatest_products(queries, self.vectors, wanted)
        best, scores = rank_rows(queries, self.vectors, rows.astype(np.int64), size)
        # Rounding may leave out a row as good as the last one wanted. Where the last one found is as good, up to
        # rounding, there may be more like it.
        doubt = np.flatnonzero(near[:, -1] > near[:, size - 1] - queries.shape[1] * np.finfo(np.float32).eps)
        if len(doubt) and wanted < len(self.labels):
            more = min(4 * wanted, len(self.labels))
            best[doubt], scores[doubt] = self._nearest(np.ascontiguousarray(queries[doubt]), size, more)
        return best, scores


TEXTS = "texts"
"""The one group of an index of training texts."""


def write_texts(place: Path, vectors: Singles, known: LabelSets, group: Array, index: Index) -> None:
    """Write an index of training texts; `group` is the number of each label's group. Texts without a vector are out."""
    write_groups(place, np.full(len(vectors), TEXTS), np.any(vectors, axis=1), vectors, index)
    np.save(place / "carried_offset.npy", known.offsets)
    np.save(place / "carried.npy", known.labels.astype(np.int32))
    np.save(place / "label_group.npy", group)


@dataclass(frozen=True)
class TextIndex:
    """An index of training texts, as it lies on storage."""

    texts: GroupIndex
    carried: TextLabels
    group: Array

    @classmethod
    def open(cls, place: Path, effort: int) -> TextIndex:
        carried = TextLabels(mapped(place, "carried_offset"), mapped(place, "carried"))
        return cls(GroupIndex(place, TEXTS, effort), carried, mapped(place, "label_group"))

    def lists(self, queries: Singles, groups: int, scoring: Scoring) -> Ranked:
        """The labels of the nearest training texts, by query and group."""
        neighbours = self.texts.search(queries, scoring.neighbours)
        return label_scores(neighbours, self.carried, self.group, groups, scoring.aggregation, scoring.top)

    def neighbours(self, query: Singles, scoring: Scoring) -> Neighbours:
        """The nearest training texts of one query."""
        _, text, score = self.texts.search(query, scoring.neighbours)
        return Neighbours(text, score, self.carried)


HEADS_FILE = "heads.npz"


def matrix(vectors: pa.ListArray) -> Singles:
    """Vectors, at least one, as the rows of a matrix."""
    return vectors.flatten().to_numpy().reshape(len(vectors), -1)


def read_vectors(uris: Sequence[str], ids: pa.Array) -> Singles:
    """The vectors of some ids, which are ascending: one row per id."""
    out, seen = np.empty((0, 0), np.float32), np.zeros(len(ids), np.bool_)
    for uri in uris:
        rows = read_rows(uri, ["id", "vector"], ds.field("id").isin(ids))
        for batch in (batch for batch in rows.to_batches() if len(batch)):
            vectors = matrix(batch["vector"])
            out = out if out.size else np.zeros((len(ids), vectors.shape[1]), np.float32)
            place = pc.index_in(batch["id"], value_set=ids).to_numpy()
            out[place], seen[place] = vectors, True
    if not seen.all():
        first = ", ".join(map(str, ids.filter(pa.array(~seen))[:5].to_pylist()))
        raise InputError(
            f"{len(ids) - seen.sum():,} ids have no vector in {uris[0]} and its neighbours, first: {first}"
        )
    return out


@dataclass(frozen=True)
class VectorTables:
    """Where the vectors of texts and of labels' words are."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    """Empty if the words of labels do not count."""


def examples(tables: VectorTables, source: FoldSource, role: str, most: int | None = None) -> Examples:
    """The vectors and labels of the texts that have a role in the fold."""
    ids = role_texts(source, role, most)
    return Examples(read_vectors(tables.texts, ids), label_sets(source, ids))


def label_parts(tables: VectorTables, count: int, train: Examples | None) -> LabelParts:
    """What is known of the labels. Only training texts are looked at."""
    words = None
    if tables.labels:
        some = np.unique(np.concatenate([read_rows(uri, ["id"])["id"].to_numpy() for uri in tables.labels]))
        vectors = read_vectors(tables.labels, pa.array(some))
        words = np.zeros((count, vectors.shape[1]), np.float32)
        words[some] = vectors
    return LabelParts(count, words, train)


@dataclass(frozen=True)
class ProjectionTraining:
    """How heads are trained, and what labels are made of."""

    tables: VectorTables
    train_texts: bool
    """Whether the mean of a label's training texts is a part of it."""
    training: Training


def train_projection(folder: str, work: ProjectionTraining) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that trains the heads of a fold and writes them to `folder`/fold=N."""

    def run(source: FoldSource) -> dict[str, Any]:
        train = examples(work.tables, source, "train")
        validation = examples(work.tables, source, "validation", VALIDATION_TEXTS)
        count = len(read_rows(f"{source.prepared}/labels.parquet", ["label_id"]))
        parts = label_parts(work.tables, count, train if work.train_texts else None)
        done = train_heads(parts, train, validation, work.training, f"fold {source.fold}")
        with writable_folder(fold_folder(folder, source.fold)) as place:
            write_heads(place, done.heads.text, done.heads.label)
        return {"mrr": done.mrr, "loss": done.losses, "best": done.best}

    return run


def write_heads(place: Path, text: Head, label: Head) -> None:
    np.savez(place / HEADS_FILE, text=text.weights, text_bias=text.bias, label=label.weights, label_bias=label.bias)


def read_heads(place: Path) -> tuple[Head, Head]:
    """The text head and the label head."""
    with np.load(place / HEADS_FILE, allow_pickle=False) as saved:
        return Head(saved["text"], saved["text_bias"]), Head(saved["label"], saved["label_bias"])


@dataclass(frozen=True)
class Dense:
    """A bi-encoder as a retriever: the nearest labels (`dense`), or the labels of the nearest texts (`dense-texts`)."""

    name: str
    groups: tuple[str, ...]
    encoder: Encoder
    tables: tuple[VectorTables, ...]
    """Those of all folds, or of each fold in their order, if each has an encoder of its own."""
    trained: str | None
    """The folder with the heads of every fold; None if vectors are searched as they are."""
    fingerprint: str
    """That of the heads, of which a machine may have kept older ones."""
    train_texts: bool
    by_texts: bool
    index: Index
    scoring: Scoring
    effort: int = 256
    """How many vectors a search of HNSW looks at."""
    in_threads: bool = True

    @property
    def encoding(self) -> Vectors:
        return Vectors(self.encoder)

    def vectors_of(self, fold: int) -> VectorTables:
        return self.tables[fold if len(self.tables) > 1 else 0]

    def fit(self, source: FoldSource, models: str) -> dict[str, Any]:
        """Write the index of a fold, with the heads; its figures."""
        tables = self.vectors_of(source.fold)
        heads = None
        if self.trained is not None:
            heads = read_heads(readable_folder(fold_folder(self.trained, source.fold), self.fingerprint))
        groups = read_label_groups(source.prepared)
        train = examples(tables, source, "train") if self.by_texts or self.train_texts else None
        with writable_folder(fold_folder(models, source.fold)) as place:
            if heads is not None:
                write_heads(place, *heads)
            if self.by_texts:
                assert train is not None
                vectors = train.vectors if heads is None else heads[0](train.vectors)
                number = np.searchsorted(np.array(self.groups), groups).astype(np.int8)
                write_texts(place, vectors, train.known, number, self.index)
                return {"texts": len(vectors)}
            parts = label_parts(tables, len(groups), train).all()
            known = np.zeros(len(groups), np.bool_)
            known[described(parts)] = True
            vectors = combined(parts) if heads is None else heads[1](np.hstack(parts))
            return write_groups(place, groups, known, vectors, self.index)

    def open(self, place: Path) -> DenseModel:
        head = read_heads(place)[0] if (place / HEADS_FILE).exists() else None
        texts = TextIndex.open(place, self.effort) if self.by_texts else None
        labels = () if texts else tuple(GroupIndex(place, group, self.effort) for group in self.groups)
        return DenseModel(self, head, labels, texts)


@dataclass(frozen=True)
class DenseModel:
    """The model of a fold."""

    retriever: Dense
    head: Head | None
    labels: tuple[GroupIndex, ...]
    texts: TextIndex | None

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        queries, scoring = self._queries(rows), self.retriever.scoring
        if self.texts is not None:
            return self.texts.lists(queries, len(self.retriever.groups), scoring)
        return interleaved([index.search(queries, scoring.top) for index in self.labels])

    def neighbours(self, row: pa.RecordBatch) -> Neighbours | None:
        return None if self.texts is None else self.texts.neighbours(self._queries(row), self.retriever.scoring)

    def _queries(self, rows: pa.RecordBatch) -> Singles:
        vectors = matrix(rows["vector"])
        return np.ascontiguousarray(vectors if self.head is None else self.head(vectors))


def found_share(retriever: Dense, models: str, fingerprint: str, texts: int) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that compares the search with the exact one on some test texts of a fold: by group, the
    labels of the exact lists, those of them that the search finds, and the texts."""

    def run(source: FoldSource) -> dict[str, Any]:
        place = readable_folder(fold_folder(models, source.fold), fingerprint)
        ids = role_texts(source, "test", texts)
        vectors = read_vectors(retriever.vectors_of(source.fold).texts, ids)
        head = read_heads(place)[0] if (place / HEADS_FILE).exists() else None
        queries = np.ascontiguousarray(vectors if head is None else head(vectors))
        report = {}
        for group in retriever.groups:
            exact, found = (
                GroupIndex(place, group, retriever.effort, whole).search(queries, retriever.scoring.top)
                for whole in (True, False)
            )
            wanted, ours = (_pairs(lists) for lists in (exact, found))
            report[group] = {"wanted": len(wanted), "found": int(np.isin(wanted, ours).sum()), "texts": len(ids)}
        return report

    return run


def _pairs(lists: Ranked) -> Ints:
    """A number for each pair of a list and a label in it."""
    return np.repeat(np.arange(len(lists.offset) - 1), np.diff(lists.offset)) * 2**32 + lists.item
