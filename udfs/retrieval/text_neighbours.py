"""The training texts of a fold as vectors, and labels by the nearest of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from fusion.retrieval.contrastive import LabelSets
from fusion.retrieval.neighbours import TextLabels, label_scores
from fusion.retrieval.projection import Head
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Singles
from udfs.lists import Batches, list_rows
from udfs.retrieval.bm25 import Scoring, mapped
from udfs.retrieval.folds import FoldSource, read_label_words
from udfs.retrieval.vectors import GroupIndex, Index, Search, examples, matrix, read_heads, write_groups
from udfs.stores.cache import readable_folder, writable_folder

RETRIEVER = "dense-texts"
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
    def open(cls, place: Path, effort: int, exact: bool = False) -> TextIndex:
        carried = TextLabels(mapped(place, "carried_offset"), mapped(place, "carried"))
        return cls(GroupIndex(place, TEXTS, effort, exact), carried, mapped(place, "label_group"))

    def lists(self, queries: Singles, groups: int, scoring: Scoring) -> Ranked:
        """The labels of the nearest training texts, by query and group."""
        text, score, sizes = self.texts.search(queries, scoring.neighbours)
        neighbours = Ranked(np.concatenate(([0], np.cumsum(sizes))), text, score)
        return label_scores(neighbours, self.carried, self.group, groups, scoring.aggregation, scoring.top)


def index_texts(folder: str, groups: tuple[str, ...], index: Index, fingerprint: str) -> Callable[[FoldSource], int]:
    """The work of `over_folds` that writes the vectors of a fold's training texts to `folder`/fold=N; their number.

    `fingerprint` is that of the heads, of which a machine may have kept older ones.
    """

    def work(source: FoldSource) -> int:
        train = examples(source, "train")
        vectors = train.vectors
        if source.model is not None:
            vectors = read_heads(readable_folder(source.model, fingerprint))[0](vectors)
        number = np.searchsorted(np.array(groups), np.array(read_label_words(source.prepared).groups))
        with writable_folder(f"{folder}/fold={source.fold}") as place:
            write_texts(place, vectors, train.known, number.astype(np.int8), index)
        return len(vectors)

    return work


@lru_cache(maxsize=1)
def open_texts(search: Search, fold: int) -> tuple[Head | None, TextIndex]:
    """The text head and the training texts of a fold, read once per Python worker."""
    place = readable_folder(f"{search.index}/fold={fold}", search.fingerprint)
    head = None
    if search.heads is not None:
        head = read_heads(readable_folder(f"{search.heads}/fold={fold}", search.fingerprint))[0]
    return head, TextIndex.open(place, search.effort, search.exact)


def search_texts(search: Search, scoring: Scoring) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (fold, text_id, vector), folds together: the labels of the nearest training texts."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            folds = batch["fold"].to_numpy()
            for fold in np.unique(folds):
                rows = batch.filter(pa.array(folds == fold))
                head, index = open_texts(search, int(fold))
                vectors = matrix(rows["vector"])
                queries = np.ascontiguousarray(vectors if head is None else head(vectors))
                lists = index.lists(queries, len(search.groups), scoring)
                yield list_rows(int(fold), RETRIEVER, rows["text_id"], search.groups, lists)

    return run
