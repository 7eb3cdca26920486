"""Features of candidates, which learned fusions read: what the lists say about a label, and how frequent it is.

Of a list that lacks the label all features are 0, but for its length and its best score.

How the features of candidates are computed, for the pools of a block one after another (see features.py).

Every feature has loops of its own, without branches, over rows cut from whole matrices: only then does the compiler
know that values lie side by side, which vectors need.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.models.bands import BandRows, band_matrix
from fusion.types import EPS, Array, Floats, Int32s, Ints

FEATURES_OF_LIST = 13
"""The number of features per retriever; below, each has its place among these."""
WHOLE = 128
"""The candidates that are scored together are a multiple of this many, however wide the vectors of the processor."""


@compiled
def room_for(source, pools) -> Any:  # type: ignore[no-untyped-def]
    """How many candidates x must hold: as many as are to be scored together, and those of the largest pool."""
    largest = source.at_once
    for p in pools:
        largest = max(largest, source.offset[p + 1] - source.offset[p])
    return (largest + WHOLE - 1) // WHOLE * WHOLE


@compiled
def fill_features(source, pools, first, wanted, x) -> Any:  # type: ignore[no-untyped-def]
    """Fill x (features x candidates) with the wanted features of some pools, from the first on and as many as there is
    room for: where the candidates of each of these begin in x, and where the last one's end."""
    retrievers = source.position.shape[0]
    bounds = _bounds(source.offset, pools[first:], x.shape[1])
    chosen, candidates = pools[first : first + bounds.size - 1], bounds[-1]
    held = np.zeros(candidates)
    for r in range(retrievers):
        position = _of_pools(source.position[r], source.offset, chosen, candidates)
        score = _of_pools(source.score[r], source.offset, chosen, candidates)
        _fill_list(source, r, chosen, bounds, position, score, wanted, x)
        _count_list(position, held)
    _fill_common(held, bounds, retrievers, wanted, x)
    if wanted[retrievers * FEATURES_OF_LIST + 4 :].any():
        label = _of_pools(source.label, source.offset, chosen, candidates)
        _fill_training(source, label, chosen, bounds, retrievers, wanted, x)
    return bounds


@compiled
def same_in_pool(row, retrievers) -> Any:  # type: ignore[no-untyped-def]
    """Whether all candidates of a pool have the same value of a feature: that of a list, or their number."""
    common = row - retrievers * FEATURES_OF_LIST
    return row % FEATURES_OF_LIST in (10, 11) if common < 0 else common == 3


@compiled
def _bounds(offset, pools, room):  # type: ignore[no-untyped-def]
    bounds = np.zeros(pools.size + 1, np.int64)
    for n in range(pools.size):
        bounds[n + 1] = bounds[n] + offset[pools[n] + 1] - offset[pools[n]]
        if bounds[n + 1] > room:
            return bounds[: n + 1]
    return bounds


@compiled
def _of_pools(values, offset, pools, candidates):  # type: ignore[no-untyped-def]
    """The values of the candidates of some pools; a copy only where there are other pools in between."""
    if candidates == 0 or pools[-1] - pools[0] == pools.size - 1:
        begin = offset[pools[0]] if candidates else 0
        return values[begin : begin + candidates]
    gathered = np.empty(candidates, values.dtype)
    end = 0
    for p in pools:
        for c in range(offset[p], offset[p + 1]):
            gathered[end] = values[c]
            end += 1
    return gathered


@compiled
def _fill_list(source, r, pools, bounds, position, score, wanted, x):  # type: ignore[no-untyped-def]
    f = r * FEATURES_OF_LIST
    shift, unit, places, missing, length, best = _list_figures(source, r, pools)
    if wanted[f]:
        _where_present(position, score, x[f])
    for n in range(4):
        if wanted[f + 1 + n]:
            _scale(position, score, bounds, shift[n], unit[n], x[f + 1 + n])
    for n in range(2):
        if wanted[f + 5 + n]:
            _by_place(position, bounds, places[n], missing[n], x[f + 5 + n])
    if wanted[f + 7]:
        _inverse(position, x[f + 7])
    if wanted[f + 8]:
        _logarithm(position, source.logs, x[f + 8])
    if wanted[f + 9]:
        _presence(position, x[f + 9])
    if wanted[f + 10]:
        _repeat(length, bounds, x[f + 10])
    if wanted[f + 11]:
        _repeat(best, bounds, x[f + 11])
    if wanted[f + 12]:
        _gap(position, score, bounds, best, x[f + 12])


@compiled
def _list_figures(source, r, pools):  # type: ignore[no-untyped-def]
    """Of a list of each pool: what scores are shifted by and divided by (min-max, max, sum, zmuv), what places are
    divided by and the value of a missing label (rank, borda), ln(1 + results), and the best score."""
    shift, unit = np.zeros((4, pools.size)), np.ones((4, pools.size))
    places, missing = np.ones((2, pools.size)), np.zeros((2, pools.size))
    length, best = np.zeros(pools.size), np.zeros(pools.size)
    for n in range(pools.size):
        results, low, high, total, mean, std, pooled = source.figures[:, pools[n], r]
        if results > 0:
            shift[0, n], unit[0, n] = low, max(high - low, source.eps)
            unit[1, n] = max(high, source.eps)
            shift[2, n], unit[2, n] = low, max(total - results * low, source.eps)
            shift[3, n], unit[3, n] = mean, max(std, source.eps)
            places[0, n], places[1, n] = results, pooled
            missing[1, n] = 0.5 - (results - 1) / (2 * pooled)
            length[n], best[n] = np.log(1.0 + results), high
    return shift, unit, places, missing, length, best


@compiled
def _where_present(position, score, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        x[c] = score[c] if position[c] >= 0 else 0.0


@compiled
def _scale(position, score, bounds, shift, scale, x):  # type: ignore[no-untyped-def]
    for n in range(shift.size):
        begin, end, low, unit = bounds[n], bounds[n + 1], shift[n], scale[n]
        places, scores, row = position[begin:end], score[begin:end], x[begin:end]
        for c in range(places.size):
            value = (scores[c] - low) / unit
            row[c] = value if places[c] >= 0 else 0.0


@compiled
def _by_place(position, bounds, size, missing, x):  # type: ignore[no-untyped-def]
    for n in range(size.size):
        begin, end, of_list, of_missing = bounds[n], bounds[n + 1], size[n], missing[n]
        places, row = position[begin:end], x[begin:end]
        for c in range(places.size):
            value = 1 - places[c] / of_list
            row[c] = value if places[c] >= 0 else of_missing


@compiled
def _inverse(position, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        # A list that lacks the label has place -1.
        value = 1 / max(position[c] + 1, 1)
        x[c] = value if position[c] >= 0 else 0.0


@compiled
def _logarithm(position, logs, x):  # type: ignore[no-untyped-def]
    # ln(1) is also the value of a label that the list lacks.
    if not position.size or position.max() < logs.size:
        for c in range(position.size):
            x[c] = logs[max(position[c], 0)]
    else:
        for c in range(position.size):
            i = max(position[c], 0)
            x[c] = logs[i] if i < logs.size else np.log(i + 1.0)


@compiled
def _presence(position, x):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        x[c] = 1.0 if position[c] >= 0 else 0.0


@compiled
def _gap(position, score, bounds, high, x):  # type: ignore[no-untyped-def]
    for n in range(high.size):
        begin, end, best = bounds[n], bounds[n + 1], high[n]
        places, scores, row = position[begin:end], score[begin:end], x[begin:end]
        for c in range(places.size):
            value = best - scores[c]
            row[c] = value if places[c] >= 0 else 0.0


@compiled
def _repeat(values, bounds, x):  # type: ignore[no-untyped-def]
    for n in range(values.size):
        for c in range(bounds[n], bounds[n + 1]):
            x[c] = values[n]


@compiled
def _count_list(position, held):  # type: ignore[no-untyped-def]
    for c in range(position.size):
        held[c] += 1.0 if position[c] >= 0 else 0.0


@compiled
def _add_lists(x, retrievers, feature, total):  # type: ignore[no-untyped-def]
    """The sum of a feature over the lists."""
    total[:] = 0.0
    for r in range(retrievers):
        values = x[r * FEATURES_OF_LIST + feature]
        for c in range(total.size):
            total[c] += values[c]


@compiled
def _product(a, b, x):  # type: ignore[no-untyped-def]
    for c in range(b.size):
        x[c] = a[c] * b[c]


@compiled
def _fill_common(held, bounds, retrievers, wanted, x):  # type: ignore[no-untyped-def]
    f, total = retrievers * FEATURES_OF_LIST, np.empty(held.size)
    if wanted[f]:
        x[f, : held.size] = held
    if wanted[f + 1]:
        _add_lists(x, retrievers, 4, total)
        _product(total, held, x[f + 1])
    if wanted[f + 2]:
        _add_lists(x, retrievers, 1, x[f + 2, : held.size])
    if wanted[f + 3]:
        size = np.empty(bounds.size - 1)
        for n in range(size.size):
            size[n] = np.log(1.0 + bounds[n + 1] - bounds[n])
        _repeat(size, bounds, x[f + 3])


@compiled
def _fill_training(source, label, pools, bounds, retrievers, wanted, x):  # type: ignore[no-untyped-def]
    f = retrievers * FEATURES_OF_LIST + 4
    seen, unseen, logs = x[f], x[f + 1], source.logs
    texts = np.empty(label.size, np.int32)
    for n in range(pools.size):
        begin, end, counts = bounds[n], bounds[n + 1], source.train_texts[source.train_row[pools[n]]]
        labels, of_pool = label[begin:end], texts[begin:end]
        for c in range(labels.size):
            of_pool[c] = counts[labels[c]] if labels[c] < counts.size else 0
    if label.size and texts.max() < logs.size:
        for c in range(label.size):
            seen[c] = logs[texts[c]]
    else:
        for c in range(label.size):
            seen[c] = logs[texts[c]] if texts[c] < logs.size else np.log(1.0 + texts[c])
    # A loop of its own, for vectors: ln(1 + texts) is 0 for no texts alone.
    for c in range(label.size):
        unseen[c] = 1.0 if seen[c] == 0.0 else 0.0
    for r in range(retrievers):
        for second in range(2):
            of_unseen = f + 2 + 2 * r + second
            if wanted[of_unseen]:
                # Of every list in turn, its min-max and its reciprocal rank.
                _product(x[r * FEATURES_OF_LIST + (7 if second else 1)], unseen[: label.size], x[of_unseen])


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


OTHER = "other"
"""The part of a score that is none of a single retriever's."""


def list_of(feature: str, retrievers: Sequence[str]) -> str:
    """The retriever that a feature is about, or OTHER."""
    retriever = feature.rpartition(".")[0]
    return retriever if retriever in retrievers else OTHER


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
    return FeatureSource(
        offset=pools.offset,
        position=position,
        score=score,
        figures=figures,
        label=pools.label,
        train_texts=table,
        train_row=row,
        logs=LOGARITHMS,
        eps=EPS,
        at_once=AT_ONCE,
    )


class Features:
    """The features of a block's candidates, which models compute as far as they read them."""

    def __init__(self, pools: Pools, retrievers: Sequence[str]) -> None:
        self.pools, self.retrievers = pools, tuple(retrievers)
        self.names = _names(tuple(retrievers), pools.train_texts is not None)

    @cached_property
    def source(self) -> FeatureSource:
        return feature_source(self.pools)

    @cached_property
    def band_rows(self) -> BandRows:
        """What models over frequency bands read."""
        return BandRows.of(band_matrix(self.pools), self.retrievers)

    def candidates(self, pools: Ints) -> tuple[Ints, Ints]:
        """The candidates of some pools, and where each pool's begin among them."""
        offset = self.pools.offset
        sizes = offset[pools + 1] - offset[pools]
        bounds = np.append(0, np.cumsum(sizes))
        return np.repeat(offset[pools] - bounds[:-1], sizes) + np.arange(bounds[-1]), bounds

    def rows(self, names: tuple[str, ...]) -> tuple[Ints, Array]:
        """Where some features stand among all, and which have to be computed so that these can be read."""
        return _rows(self.names, names)


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
