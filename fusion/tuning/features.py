"""Features of candidates, which learned fusions read: what the lists say about a label, and how frequent it is.

Of a list that lacks the label all features are 0, but for its length and its best score.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.types import EPS, Floats

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


LOGARITHMS = np.log(np.arange(1.0, 4097.0))
"""Of small whole numbers, which ranks and frequencies mostly are: looked up, they cost less."""


def feature_names(retrievers: Sequence[str], trained: bool) -> tuple[str, ...]:
    """The features in the order of the matrix's columns; `trained`: whether the labels of training texts are known."""
    of_lists = [f"{name}.{feature}" for name in retrievers for feature in OF_LIST]
    unseen = [f"{name}.{feature}" for name in retrievers for feature in UNSEEN_OF_LIST]
    return (*of_lists, *OF_CANDIDATE, *((*OF_TRAINING, *unseen) if trained else ()))


def feature_matrix(pools: Pools) -> Floats:
    """The features of all candidates of a text block (candidates x features)."""
    retrievers, candidates = pools.position.shape
    trained = pools.train_texts is not None
    table, row = (np.zeros((1, 1), np.int32), np.zeros(len(pools.source), np.int64))
    if pools.train_texts is not None:
        table, row = pools.train_texts
    names = retrievers * len(OF_LIST) + len(OF_CANDIDATE)
    names += len(OF_TRAINING) + retrievers * len(UNSEEN_OF_LIST) if trained else 0
    matrix = np.zeros((candidates, names))
    s = pools.statistics
    figures = np.stack([s.size, s.low, s.high, s.total, s.mean, s.std, s.candidates])
    _fill(pools.offset, pools.position, pools.score, figures, pools.label, table, row, trained, EPS, LOGARITHMS, matrix)
    return matrix


@compiled
def _fill(offset, position, score, figures, label, table, row, trained, eps, logs, matrix):  # type: ignore[no-untyped-def]
    retrievers = position.shape[0]
    width = 13
    common = retrievers * width
    for p in range(offset.size - 1):
        for r in range(retrievers):
            n, low, high, total, mean, std, pooled = figures[:, p, r]
            if n == 0:
                continue
            spread, share, deviation = max(high - low, eps), max(total - n * low, eps), max(std, eps)
            top, length = max(high, eps), np.log(1.0 + n)
            missing = 0.5 - (n - 1) / (2 * pooled)
            for c in range(offset[p], offset[p + 1]):
                at = r * width
                matrix[c, at + 10] = length
                matrix[c, at + 11] = high
                i = position[r, c]
                if i < 0:
                    matrix[c, at + 6] = missing
                    continue
                x = score[r, c]
                matrix[c, at] = x
                matrix[c, at + 1] = (x - low) / spread
                matrix[c, at + 2] = x / top
                matrix[c, at + 3] = (x - low) / share
                matrix[c, at + 4] = (x - mean) / deviation
                matrix[c, at + 5] = 1 - i / n
                matrix[c, at + 6] = 1 - i / pooled
                matrix[c, at + 7] = 1 / (i + 1)
                matrix[c, at + 8] = logs[i] if i < logs.size else np.log(i + 1.0)
                matrix[c, at + 9] = 1
                matrix[c, at + 12] = high - x
        many = np.log(1.0 + offset[p + 1] - offset[p])
        for c in range(offset[p], offset[p + 1]):
            held, by_deviation, by_spread = 0, 0.0, 0.0
            for r in range(retrievers):
                held += position[r, c] >= 0
                by_deviation += matrix[c, r * width + 4]
                by_spread += matrix[c, r * width + 1]
            matrix[c, common] = held
            matrix[c, common + 1] = held * by_deviation
            matrix[c, common + 2] = by_spread
            matrix[c, common + 3] = many
            if trained:
                texts = table[row[p], label[c]] if label[c] < table.shape[1] else 0
                matrix[c, common + 4] = logs[texts] if texts < logs.size else np.log(1.0 + texts)
                if texts == 0:
                    matrix[c, common + 5] = 1
                    for r in range(retrievers):
                        matrix[c, common + 6 + 2 * r] = matrix[c, r * width + 1]
                        matrix[c, common + 7 + 2 * r] = matrix[c, r * width + 7]
