"""Made-up candidates of realistic shape: Zipf labels, overlapping lists, planted relevance.

For benchmarks and tests, where size matters and meaning does not. The same seed and chunk give the same rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fusion.labels import HEAD, TAIL, head_size
from fusion.types import Array, Floats, Int32s, Ints

LISTED = 64
"""The results of a list."""
_DRAWS, _POOL = 192, 96
_LABELS_PER_TEXT = 5.0
_ZIPF = 0.8


class Chunk(NamedTuple):
    """Texts `first` to `first + len(sizes)`: relevant labels (flat, with each text's number of them), and labels
    and scores of the lists by retriever and label group, best first (texts x LISTED; -1 beyond a list's end)."""

    first: int
    relevant: Int32s
    sizes: Ints
    lists: dict[tuple[str, str], tuple[Int32s, Array]]


def label_groups(labels: int, seed: int = 0) -> tuple[Int32s, Array]:
    """Label ids from the most frequent to the rarest, and their groups."""
    ids = np.random.default_rng([seed, 1]).permutation(labels).astype(np.int32)
    groups = np.full(labels, TAIL, dtype=object)
    groups[: head_size(labels)] = HEAD
    return ids, groups


def make_chunk(
    first: int, texts: int, labels: int, retrievers: tuple[str, ...] = ("bm25", "dense"), seed: int = 0
) -> Chunk:
    """The texts from `first` on, with relevant labels and the lists of every retriever."""
    rng = np.random.default_rng([seed, 2, first])
    ids, _ = label_groups(labels, seed)
    head = head_size(labels)
    weight = 1 / np.arange(1, labels + 1) ** _ZIPF

    sizes = 1 + rng.poisson(_LABELS_PER_TEXT - 1, texts)
    most = int(sizes.max())
    drawn = _zipf(rng, weight, (texts, most))
    wanted = np.arange(most) < sizes[:, None]
    wanted &= ~_repeats(drawn)
    relevant_rank = np.where(wanted, drawn, -1)

    lists = {}
    for group, low, high in ((TAIL, head, labels), (HEAD, 0, head)):
        mine = np.where((relevant_rank >= low) & (relevant_rank < high), relevant_rank, -1)
        others = low + _zipf(rng, weight[low:high], (texts, min(_DRAWS, 2 * (high - low))))
        pool = np.concatenate([mine, others], axis=1)
        pool[_repeats(pool)] = -1
        # Keep some distractors beside all relevant labels.
        pool = pool[:, : most + _POOL]
        relevant = (np.arange(pool.shape[1]) < most) & (pool >= 0)
        shared = rng.normal(size=pool.shape) + 1.5 * relevant
        for r, retriever in enumerate(retrievers):
            affinity = shared + rng.normal(size=pool.shape)
            affinity[(pool < 0) | (relevant & (rng.random(pool.shape) < 0.15))] = -np.inf
            best = np.argsort(-affinity, axis=1, kind="stable")[:, :LISTED]
            affinity, label = (np.take_along_axis(rows, best, axis=1) for rows in (affinity, pool))
            label = np.where(np.isneginf(affinity), -1, ids[label]).astype(np.int32)
            lists[retriever, group] = (label, _scores(r, affinity))
    return Chunk(first, ids[relevant_rank[wanted]], wanted.sum(axis=1), lists)


def _zipf(rng: np.random.Generator, weight: Floats, shape: tuple[int, int]) -> Ints:
    share = np.cumsum(weight) / weight.sum()
    return np.minimum(np.searchsorted(share, rng.random(shape)), len(weight) - 1)


def _repeats(rows: Array) -> Array:
    """Whether a value stands further left in its row, too."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    again = np.zeros(rows.shape, np.bool_)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    out = np.empty_like(again)
    np.put_along_axis(out, order, again, axis=1)
    return out


def _scores(retriever: int, affinity: Floats) -> Array:
    """The first retriever scores like BM25 (positive, unbounded), the others like cosines."""
    finite = np.where(np.isneginf(affinity), 0.0, affinity)
    score = 8 * np.exp(finite / 3) if retriever == 0 else np.tanh(finite / 4)
    return score.astype(np.float32)
