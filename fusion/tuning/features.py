"""Features of candidates, which learned fusions read: what the lists say about a label, and how frequent it is.

Of a list that lacks the label all features are 0, but for its length and its best score.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fusion.kernel.pools import Pools
from fusion.tuning.feature_filling import fill_features
from fusion.types import EPS, Array, Floats, Int32s, Ints

OF_LIST = (
    "score",
    "min-max",
    "max",
    "sum",
    "zmuv",
    "rank",
    "borda",
    "reciprocal_rank",
    "log_rank",
    "present",
    "length",
    "best",
    "gap",
)
"""Per retriever: the score, the paper's normalisations of it, 1 / rank, ln(rank), whether the list holds the label,
ln(1 + results of the list), its best score, and how far the label's score is below that."""
OF_CANDIDATE = ("lists", "combmnz", "combsum", "candidates")
"""How many lists hold the label, zmuv+combmnz, min-max+combsum, and ln(1 + candidates of the text)."""
OF_TRAINING = ("train_texts", "unseen")
"""ln(1 + training texts of the fold that carry the label), and whether there is none."""
UNSEEN_OF_LIST = ("unseen_min-max", "unseen_reciprocal_rank")
"""Per retriever: two of its features for a label without training texts, which some retrievers cannot list; else 0."""

MADE_OF = {
    "combmnz": "zmuv",
    "combsum": "min-max",
    "unseen_min-max": "min-max",
    "unseen_reciprocal_rank": "reciprocal_rank",
}
"""Features of a candidate that are made of another one of its lists."""
AT_ONCE = 2048
"""Candidates that are scored together, a multiple of WHOLE: many make loops cheap, few keep features in the caches."""
LOGARITHMS = np.log(np.arange(1.0, 4097.0))
"""Of small whole numbers, which ranks and frequencies mostly are: looked up, they cost less."""


def feature_names(retrievers: Sequence[str], trained: bool) -> tuple[str, ...]:
    """The features in the order of the matrix's columns; `trained`: whether the labels of training texts are known."""
    of_lists = [f"{name}.{feature}" for name in retrievers for feature in OF_LIST]
    unseen = [f"{name}.{feature}" for name in retrievers for feature in UNSEEN_OF_LIST]
    return (*of_lists, *OF_CANDIDATE, *((*OF_TRAINING, *unseen) if trained else ()))


class FeatureSource(NamedTuple):
    """What features are computed from: a block of pools, as compiled code reads it."""

    offset: Ints
    position: Int32s
    score: Floats
    figures: Floats
    """Size, minimum, maximum, sum, mean, deviation and number of candidates (figure x pool x list)."""
    label: Int32s
    train_texts: Int32s
    train_row: Ints
    logs: Floats
    eps: float
    at_once: int
    """Candidates that are scored together."""


def feature_source(pools: Pools) -> FeatureSource:
    table, row = pools.train_texts or (np.zeros((1, 1), np.int32), np.zeros(len(pools.source), np.int64))
    s = pools.statistics
    figures = np.stack([s.size, s.low, s.high, s.total, s.mean, s.std, s.candidates])
    position, score = np.ascontiguousarray(pools.position), np.ascontiguousarray(pools.score)
    return FeatureSource(pools.offset, position, score, figures, pools.label, table, row, LOGARITHMS, EPS, AT_ONCE)


class Features:
    """The features of a block's candidates, which models compute as far as they read them."""

    def __init__(self, pools: Pools, retrievers: Sequence[str]) -> None:
        self.source = feature_source(pools)
        self._all = _names(tuple(retrievers), pools.train_texts is not None)

    def rows(self, names: tuple[str, ...]) -> tuple[Ints, Array]:
        """Where some features stand among all, and which have to be computed so that these can be read."""
        return _rows(self._all, names)


# A pass has many blocks, all with the same features.
_names = lru_cache(maxsize=1024)(feature_names)


@lru_cache(maxsize=1024)
def _rows(every: tuple[str, ...], read: tuple[str, ...]) -> tuple[Ints, Array]:
    kinds = {MADE_OF[name.split(".")[-1]] for name in read if name.split(".")[-1] in MADE_OF}
    wanted = [name in read or name.split(".")[-1] in kinds for name in every]
    return np.array([every.index(name) for name in read], np.int64), np.array(wanted)


def feature_matrix(pools: Pools) -> Floats:
    """The features of all candidates of a text block (candidates x features)."""
    trained = pools.train_texts is not None
    retrievers, candidates = pools.position.shape
    names = feature_names([str(r) for r in range(retrievers)], trained)
    x = np.empty((len(names), candidates))
    fill_features(feature_source(pools), np.arange(len(pools.source)), 0, np.ones(len(names), np.bool_), x)
    return np.ascontiguousarray(x.T)
