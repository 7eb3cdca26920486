"""Retrievers of the user's own, in the workers: a function that learns from a fold and returns what ranks labels."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa

from fusion.errors import InputError, XmtcError
from fusion.retrieval.ranked import Ranked, best_labels
from fusion.types import Array, Int32s, Ints, Singles
from udfs.retrieval.folds import FoldSource, FoldTexts, read_fold
from udfs.retrieval.retriever import Plain, fold_folder
from udfs.stores.cache import writable_folder

Rank = Callable[[list[str]], Sequence[tuple[Any, Any]]]
"""From texts to the labels of each and their scores, in any order; labels that are no candidates are not listed."""
Learn = Callable[[FoldTexts], Rank]
RANK_FILE, GROUPS_FILE = "rank.pickle", "label_group.npy"
TRIED = 3
"""Training texts that a new function is tried on, so that a wrong one is reported before all texts are ranked."""


@dataclass(frozen=True)
class Own:
    """A user's function as a retriever."""

    name: str
    groups: tuple[str, ...]
    learn: bytes
    """The function, pickled with its module: workers have no such file."""
    settings: str
    """As JSON."""
    top: int
    in_threads: bool = False

    @property
    def encoding(self) -> Plain:
        return Plain()

    def fit(self, source: FoldSource, models: str) -> dict[str, int]:
        learn: Learn = pickle.loads(self.learn)
        fold = read_fold(source, json.loads(self.settings))
        where = f"retriever {self.name}, fold {source.fold}"
        try:
            rank = learn(fold)
            checked(rank(fold.train.texts[:TRIED]), len(fold.train.texts[:TRIED]), len(fold.labels), where)
            content = cloudpickle.dumps(rank)
        except XmtcError:
            raise
        # The code is not ours: whatever it raises is the answer to what went wrong.
        except Exception as error:
            raise InputError(f"{where}: {type(error).__name__}: {error}") from error
        with writable_folder(fold_folder(models, source.fold)) as place:
            (place / RANK_FILE).write_bytes(content)
            number = np.searchsorted(np.array(self.groups), np.array(fold.labels.groups))
            np.save(place / GROUPS_FILE, number.astype(np.int8))
        return {"texts": len(fold.train.ids)}

    def open(self, place: Path) -> OwnModel:
        return OwnModel(self, pickle.loads((place / RANK_FILE).read_bytes()), np.load(place / GROUPS_FILE))


@dataclass(frozen=True)
class OwnModel:
    """What a user's function has learned from a fold."""

    retriever: Own
    function: Rank
    label_group: Array

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        texts = [text or "" for text in rows["text"].to_pylist()]
        lists = checked(self.function(texts), len(texts), len(self.label_group), f"retriever {self.retriever.name}")
        return best_labels(*lists, self.label_group, len(self.retriever.groups), self.retriever.top)


def checked(lists: Any, texts: int, labels: int, where: str) -> tuple[Int32s, Singles, Ints]:
    """The labels and scores of all lists one after another, and where each list begins, if they make sense."""
    if len(lists) != texts or not all(len(pair) == 2 for pair in lists):
        raise InputError(f"{where}: expected a pair of labels and scores for each of {texts} texts, found {len(lists)}")
    label_lists = [np.asarray(label).reshape(-1) for label, _ in lists]
    score_lists = [np.asarray(score, np.float32).reshape(-1) for _, score in lists]
    for label, score in zip(label_lists, score_lists, strict=True):
        if len(label) != len(score):
            raise InputError(f"{where}: a text has {len(label)} labels and {len(score)} scores")
        if len(label) and (label.dtype.kind not in "iu" or label.min() < 0 or label.max() >= labels):
            raise InputError(f"{where}: labels are numbers from 0 to {labels - 1}, found {label[:5].tolist()}")
        if len(np.unique(label)) < len(label):
            raise InputError(f"{where}: a text has a label twice: {np.sort(label)[:10].tolist()}")
        if not np.isfinite(score).all():
            raise InputError(f"{where}: a score is not finite; leave out labels that are no candidates")
    offset = np.concatenate(([0], np.cumsum([len(label) for label in label_lists]))).astype(np.int64)
    label = np.concatenate([np.empty(0, np.int32), *label_lists]).astype(np.int32)
    return label, np.concatenate([np.empty(0, np.float32), *score_lists]), offset
