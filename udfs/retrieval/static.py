"""The static bi-encoder in the workers: training of a fold, ranked labels, and its files.

Token vectors are those of words, which start from the training texts alone, or of a pretrained model's word pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.retrieval.bags import Bags, numbered
from fusion.retrieval.neighbours import Neighbours
from fusion.retrieval.ranked import Ranked, interleaved
from fusion.retrieval.static import (
    Labelled,
    StaticModel,
    StaticTraining,
    frequency_bias,
    train_static,
    with_bias,
    word_vectors,
)
from fusion.types import Array, Ints, Singles
from udfs.retrieval.encode import MODEL_FOLDER
from udfs.retrieval.folds import VALIDATION_TEXTS, FoldSource, label_sets, read_label_groups, role_texts
from udfs.retrieval.pieces import MODULE, WEIGHTS, Pieces, first_vectors, mapped_vectors, save_model
from udfs.retrieval.retriever import Scoring, fold_folder, mapped
from udfs.retrieval.vectors import GroupIndex, Index, TextIndex, write_groups, write_texts
from udfs.retrieval.words import Words, bags_of, read_bags
from udfs.steps import advanced
from udfs.stores.cache import writable_folder

WIDTH = 384
"""Dimensions of the vectors of words."""
FEWEST_TEXTS, MOST_WORDS = 2, 300_000
"""A word has a vector if that many training texts hold it, or if a label is called by it; of too many words, the most
frequent ones have."""
WORDS, TABLE = "words", "vectors"
SEED = 0
EXACT_SEARCH = Index(None)


@dataclass(frozen=True)
class Static:
    """The static bi-encoder as a retriever: the nearest labels, or the labels of the nearest training texts."""

    name: str
    by_texts: bool
    encoding: Words | Pieces
    """Words get vectors of their own; the pieces of a pretrained model start from its vectors."""
    groups: tuple[str, ...]
    text_tokens: str
    label_tokens: str
    training: StaticTraining
    frequency_bias: float
    scoring: Scoring
    in_threads: bool = True

    def fit(self, source: FoldSource, models: str) -> dict[str, Any]:
        """Train the model of a fold, and write it with its indexes."""
        ids = role_texts(source, "train"), role_texts(source, "validation", VALIDATION_TEXTS)
        bags = [read_bags(self.text_tokens, some) for some in ids]
        groups = read_label_groups(source.prepared)
        names = read_bags(self.label_tokens, pa.array(range(len(groups)), pa.int64()))
        words = None
        if isinstance(self.encoding, Words):
            words = _vocabulary(bags[0], names)
            *bags, names = (numbered(some, words) for some in (*bags, names))
            start = word_vectors(bags[0], len(words), WIDTH, SEED)
        else:
            start = first_vectors(self.encoding.start)
        train, validation = (Labelled(some, label_sets(source, of)) for some, of in zip(bags, ids, strict=True))
        where = f"fold {source.fold}, {self.name}"
        trained = train_static(start, train, validation, names, self.training, where, advanced=advanced)
        with writable_folder(fold_folder(models, source.fold)) as place:
            self._save(place, trained.model.table, words)
            self._save_indexes(place, trained.model, train, names, groups)
        return {"mrr": trained.mrr, "loss": trained.losses, "best": trained.best}

    def _save(self, place: Path, table: Singles, words: Ints | None) -> None:
        if isinstance(self.encoding, Pieces):
            save_model(place / MODEL_FOLDER, table, self.encoding.start)
        if words is not None:
            np.save(place / f"{WORDS}.npy", words)
            np.save(place / f"{TABLE}.npy", table)

    def _save_indexes(self, place: Path, model: StaticModel, train: Labelled, names: Bags, groups: Array) -> None:
        labels = model.labels(names)
        carried = np.bincount(train.known.labels, minlength=len(groups))
        indexed = with_bias(labels, frequency_bias(carried, self.frequency_bias))
        write_groups(place, groups, np.any(labels, axis=1), indexed, EXACT_SEARCH)
        number = np.searchsorted(np.array(self.groups), groups).astype(np.int8)
        write_texts(place, model.texts(train.bags), train.known, number, EXACT_SEARCH)

    def open(self, place: Path) -> FoldModel:
        words = None
        if isinstance(self.encoding, Pieces):
            table = mapped_vectors(place / MODEL_FOLDER / MODULE / WEIGHTS)
        else:
            words, table = mapped(place, WORDS), mapped(place, TABLE)
        model = StaticModel(table, np.zeros((0, table.shape[1]), np.float32))
        texts = TextIndex.open(place, 0) if self.by_texts else None
        labels = () if texts else tuple(GroupIndex(place, group, 0, exact=True) for group in self.groups)
        return FoldModel(self, model, words, labels, texts)


def _vocabulary(train: Bags, names: Bags) -> Ints:
    """The words that get a vector, ascending."""
    words, texts = np.unique(train.token, return_counts=True)
    often = words[texts >= FEWEST_TEXTS]
    if len(often) > MOST_WORDS:
        often = often[np.argsort(-texts[texts >= FEWEST_TEXTS], kind="stable")[:MOST_WORDS]]
    return np.union1d(often, names.token)


@dataclass(frozen=True)
class FoldModel:
    """The trained model of a fold with the index that a retriever searches."""

    retriever: Static
    model: StaticModel
    words: Ints | None
    """The words that have a vector, ascending; None where tokens are those of a pretrained model."""
    labels: tuple[GroupIndex, ...]
    texts: TextIndex | None

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        """The ranked labels of texts, by text and group. A text without a token that has a vector has no list."""
        bags, groups, scoring = self._bags(rows), len(self.retriever.groups), self.retriever.scoring
        filled = np.diff(bags.offset) > 0
        queries = self.model.texts(Bags(bags.offset[np.append(filled, True)], bags.token, bags.times))
        if self.texts is not None:
            lists = self.texts.lists(queries, groups, scoring)
        else:
            biased = with_bias(queries, 1.0)
            lists = interleaved([index.search(biased, scoring.top) for index in self.labels])
        sizes = np.zeros((len(filled), groups), np.int64)
        sizes[filled] = np.diff(lists.offset).reshape(-1, groups)
        return lists._replace(offset=np.concatenate(([0], np.cumsum(sizes))))

    def neighbours(self, row: pa.RecordBatch) -> Neighbours | None:
        """The nearest training texts of one text; none if no token of it has a vector."""
        if self.texts is None:
            return None
        bags = self._bags(row)
        if not len(bags.token):
            return Neighbours(np.empty(0, np.int32), np.empty(0, np.float32), self.texts.carried)
        return self.texts.neighbours(self.model.texts(bags), self.retriever.scoring)

    def _bags(self, rows: pa.RecordBatch) -> Bags:
        bags = bags_of(rows)
        return bags if self.words is None else numbered(bags, self.words)
