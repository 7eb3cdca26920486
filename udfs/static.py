"""The static bi-encoder in the workers: tokens of all texts, training of a fold, and ranked labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.errors import InputError
from fusion.retrieval.bags import Bags
from fusion.retrieval.ranked import Ranked
from fusion.retrieval.static import Labelled, StaticModel, StaticTraining, frequency_bias, train_static, with_bias
from fusion.types import Array, Ints, Singles
from udfs.bm25 import Scoring
from udfs.candidate_rows import Batches, list_rows
from udfs.encode import MODEL_FOLDER
from udfs.fold_data import FoldSource, label_sets, read_label_words, read_rows, role_texts
from udfs.static_files import (
    MODULE,
    WEIGHTS,
    StaticStart,
    bags_of,
    first_vectors,
    open_tokenizer,
    read_vectors,
    save_model,
    token_bags,
)
from udfs.storage import readable_folder, writable_folder
from udfs.text_neighbours import TextIndex, write_texts
from udfs.vector_index import GroupIndex, Index, write_groups

LABELS, TEXTS = "static", "static-texts"
"""The two retrievers of a model: nearest labels, and labels of the nearest training texts."""
TOKENS_SCHEMA = "id long, tokens array<int>, counts array<float>"
CHUNK = 1024
EXACT_SEARCH = Index(None, 0, 0)


def tokenize_texts(start: StaticStart) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (id, text): the distinct tokens of each text, and how often each is there."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, len(batch), CHUNK):
                rows = batch.slice(begin, CHUNK)
                texts = [text or "" for text in rows["text"].to_pylist()]
                bags = token_bags(open_tokenizer(start), texts, start.max_length)
                offset = pa.array(bags.offset, pa.int32())
                columns = {
                    "id": rows["id"],
                    "tokens": pa.ListArray.from_arrays(offset, pa.array(bags.token)),
                    "counts": pa.ListArray.from_arrays(offset, pa.array(bags.times)),
                }
                yield pa.RecordBatch.from_pydict(columns)

    return run


def read_bags(uri: str, ids: Ints) -> Bags:
    """The tokens of some texts, in the order of the ids, which are ascending."""
    rows = read_rows(uri, ["id", "tokens", "counts"], ds.field("id").isin(ids)).sort_by("id").combine_chunks()
    if len(rows) != len(ids):
        raise InputError(f"{len(ids) - len(rows):,} texts have no tokens in {uri}")
    return bags_of(*(pa.concat_arrays(rows[name].chunks) for name in ("tokens", "counts")))


@dataclass(frozen=True)
class StaticWork:
    """What training needs beside the fold: where tokens are, where it starts, and how it goes."""

    text_tokens: str
    label_tokens: str
    start: StaticStart
    training: StaticTraining
    validation_texts: int
    frequency_bias: float
    groups: tuple[str, ...]


def train_fold(folder: str, work: StaticWork) -> Callable[[FoldSource], dict[str, Any]]:
    """The work of `over_folds` that trains the model of a fold and writes it to `folder`/fold=N, with its indexes."""

    def run(source: FoldSource) -> dict[str, Any]:
        ids = role_texts(source, "train"), role_texts(source, "validation", work.validation_texts)
        train, validation = (Labelled(read_bags(work.text_tokens, some), label_sets(source, some)) for some in ids)
        groups = np.array(read_label_words(source.prepared).groups)
        names = read_bags(work.label_tokens, np.arange(len(groups)))
        where = f"fold {source.fold}, static"
        trained = train_static(first_vectors(work.start), train, validation, names, work.training, where)
        model = trained.model
        with writable_folder(f"{folder}/fold={source.fold}") as place:
            save_model(place / MODEL_FOLDER, model.table, work.start)
            labels = model.labels(names)
            carried = np.bincount(train.known.labels, minlength=len(groups))
            indexed = with_bias(labels, frequency_bias(carried, work.frequency_bias))
            write_groups(place, groups, np.any(labels, axis=1), indexed, EXACT_SEARCH)
            number = np.searchsorted(np.array(work.groups), groups).astype(np.int8)
            write_texts(place, model.texts(train.bags), train.known, number, EXACT_SEARCH)
        return {"mrr": trained.mrr, "loss": trained.losses, "best": trained.best}

    return run


@dataclass(frozen=True)
class StaticSearch:
    """How the labels of texts are ranked."""

    retriever: str
    model: str
    fingerprint: str
    """That of the trained models: a worker that has read others reads again."""
    groups: tuple[str, ...]
    scoring: Scoring


class FoldModel:
    """The trained model of a fold with the index that a retriever searches."""

    def __init__(self, search: StaticSearch, fold: int) -> None:
        place = readable_folder(f"{search.model}/fold={fold}", search.fingerprint)
        table = read_vectors(place / MODEL_FOLDER / MODULE / WEIGHTS)
        self.model = StaticModel(table, np.zeros((0, table.shape[1]), np.float32))
        self.search = search
        self.texts = TextIndex.open(place, 0) if search.retriever == TEXTS else None
        self.labels = [GroupIndex(place, group, 0, exact=True) for group in search.groups] if not self.texts else []

    def lists(self, bags: Bags) -> Ranked:
        """The ranked labels of texts, by text and group."""
        queries, scoring = self.model.texts(bags), self.search.scoring
        if self.texts is not None:
            return self.texts.lists(queries, len(self.search.groups), scoring)
        biased = with_bias(queries, 1.0)
        return interleaved([index.search(biased, scoring.top) for index in self.labels])


def interleaved(groups: Sequence[tuple[Array, Singles, Ints]]) -> Ranked:
    """The lists of several groups, each (labels, scores, sizes) by text, as lists by text and group."""
    sizes = np.stack([size for _, _, size in groups], axis=1)
    offset = np.concatenate(([0], np.cumsum(sizes.ravel())))
    item, score = np.empty(offset[-1], np.int32), np.empty(offset[-1], np.float32)
    for number, (labels, scores, size) in enumerate(groups):
        inside = np.arange(len(labels)) - np.repeat(np.cumsum(size) - size, size)
        place = np.repeat(offset[number : -1 : len(groups)], size) + inside
        item[place], score[place] = labels, scores
    return Ranked(offset, item, score)


@lru_cache(maxsize=1)
def open_model(search: StaticSearch, fold: int) -> FoldModel:
    """The model of a fold, read once per Python worker."""
    return FoldModel(search, fold)


def search_static(search: StaticSearch) -> Callable[[Batches], Batches]:
    """For `mapInArrow` on rows (fold, text_id, tokens, counts), the folds together: the ranked labels of each text.

    A text without a token has no list.
    """

    def run(batches: Batches) -> Batches:
        for batch in batches:
            folds = batch["fold"].to_numpy()
            for fold in np.unique(folds):
                rows = batch.filter(pa.array((folds == fold) & (batch["tokens"].value_lengths().to_numpy() > 0)))
                lists = open_model(search, int(fold)).lists(bags_of(rows["tokens"], rows["counts"]))
                yield list_rows(int(fold), search.retriever, rows["text_id"], search.groups, lists)

    return run
