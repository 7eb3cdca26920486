"""A fusion that is safe for labels of every frequency: a ranking that is learned over the lists, and a bonus for rare
labels that decides which labels are among the first k, but not their order there.

With n the number of the fold's training texts that carry a label, and x = ln(1 + n) / ln(101) - 1:

    u = level of n's frequency band + sum over features of (a + b x) * feature
    bonus = strength * ln((below + 1.5) / (n + 1.5)) if n < below and some list has the label among its first 2k, else 0

The first k labels are the k greatest u + bonus, ordered by u; the others follow by u + bonus. The levels, a and b are
those of a listwise logistic regression (see fusion/tuning/band_learner.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.pools import Pools
from fusion.types import EPS, Array, Floats, Ints

LAST_OF_BAND = (0, 2, 5, 10, 25, 50, 100)
"""The largest number of training texts of each frequency band; the last band has no end."""
BAND_NAMES = ("0", "1-2", "3-5", "6-10", "11-25", "26-50", "51-100", ">100")
OF_LIST = ("listed", "zmuv", "zmuv_above_2", "log_tied_rank", "share_of_best", "score")
"""Per retriever: whether its list holds the label; the score under zmuv, at most 8, and how far that is above 2;
ln(1 + place), where labels of equal score share their mean place; the score as a share of the list's best; the score.
Of a list that lacks the label, all are 0."""
GREATEST_ZMUV, BEND = 8.0, 2.0
GAP = 2.0**-10
"""Between the first k labels and the others, where the others had greater scores: more than rounding is worth."""


def band_columns(retrievers: Sequence[str]) -> tuple[str, ...]:
    """What `band_matrix` has a column for."""
    features = [f"{name}.{feature}" for name in retrievers for feature in OF_LIST]
    return (*features, "train_texts", *(f"{name}.position" for name in retrievers))


def band_matrix(pools: Pools) -> Floats:
    """The features of all candidates of a text block, how many training texts carry each, and its place in each list,
    -1 where the list lacks it (candidates x columns)."""
    retrievers, candidates = pools.position.shape
    matrix = np.empty((retrievers * (len(OF_LIST) + 1) + 1, candidates))
    sizes = np.diff(pools.offset)
    for r in range(retrievers):
        listed = pools.position[r] >= 0
        best, mean, deviation = (
            np.repeat(figure[:, r], sizes)
            for figure in (pools.statistics.high, pools.statistics.mean, pools.statistics.std)
        )
        zmuv = np.where(listed, np.minimum((pools.score[r] - mean) / np.maximum(deviation, EPS), GREATEST_ZMUV), 0.0)
        score = np.where(listed, pools.score[r], 0.0)
        of_list = matrix[r * len(OF_LIST) : (r + 1) * len(OF_LIST)]
        of_list[0], of_list[1], of_list[2] = listed, zmuv, np.maximum(zmuv - BEND, 0.0)
        of_list[3] = np.where(listed, np.log1p(np.maximum(pools.mean_position[r], 0.0)), 0.0)
        of_list[4], of_list[5] = score / np.maximum(best, 1e-6), score
    matrix[retrievers * len(OF_LIST)] = train_texts(pools)
    matrix[retrievers * len(OF_LIST) + 1 :] = pools.position
    return np.ascontiguousarray(matrix.T)


def train_texts(pools: Pools) -> Ints:
    """How many training texts carry each candidate; 0 where training texts are not known."""
    if pools.train_texts is None:
        return np.zeros(len(pools.label), np.int64)
    counts, row = pools.train_texts
    rows = np.repeat(row, np.diff(pools.offset))
    known = pools.label < counts.shape[1]
    return np.where(known, counts[rows, np.where(known, pools.label, 0)], 0).astype(np.int64)


def band_of(texts: Array) -> Ints:
    """The frequency band of labels, by their numbers of training texts."""
    return np.searchsorted(LAST_OF_BAND, texts, side="left")


def frequency(texts: Floats) -> Floats:
    """x of the formula above."""
    return np.log1p(texts) / np.log(101.0) - 1.0


class Bonus(NamedTuple):
    """What rare labels are given when the first k are chosen."""

    strength: float
    below: float
    """Labels with fewer training texts than this get one."""
    k: int

    def of(self, texts: Floats, best_position: Array) -> Floats:
        rarity = np.maximum(np.log((self.below + 1.5) / (texts + 1.5)), 0.0)
        return np.where(best_position < 2 * self.k, self.strength * rarity, 0.0)


@dataclass(frozen=True)
class BandModel:
    """The learned numbers. `features` are columns of `band_matrix`."""

    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    """a of the formula above, by feature."""
    with_frequency: tuple[float, ...]
    """b."""
    levels: tuple[float, ...]
    """By frequency band."""
    bonus: Bonus

    def __str__(self) -> str:
        strength, below, k = self.bonus
        rare = f"labels with fewer than {below:g} training texts raised by {strength:g}" if strength else "no bonus"
        return f"first {k}: {rare}"

    def score(self, features: Any, pools: Ints, scores: Floats) -> None:
        """Fill in the scores of the candidates of some pools."""
        candidates, bounds = features.candidates(pools)
        rows = features.band_rows.some(candidates)
        scores[candidates] = first_ones(
            self.plain(rows), self.bonus.of(rows.texts, rows.best_position), bounds, self.bonus.k
        )

    def plain(self, rows: BandRows) -> Floats:
        """u of the formula above. One order of summation, whatever rows come together."""
        x = frequency(rows.texts)
        total = np.array(self.levels)[band_of(rows.texts)]
        for name, a, b in zip(self.features, self.coefficients, self.with_frequency, strict=True):
            total += (a + b * x) * rows.column(name)
        return total

    def parts(self, features: Any) -> dict[str, Floats]:
        """What each retriever adds to the scores of all candidates, and what is left: the level, and for labels behind
        the first k, the bonus and how far they are moved down."""
        rows, every = features.band_rows, np.arange(len(features.pools.source))
        x, total = frequency(rows.texts), np.zeros(len(rows.matrix))
        parts = {name: np.zeros(len(total)) for name in features.retrievers}
        for name, a, b in zip(self.features, self.coefficients, self.with_frequency, strict=True):
            parts[name.rpartition(".")[0]] += (a + b * x) * rows.column(name)
        self.score(features, every, total)
        return {**parts, "other": total - sum(parts.values(), np.zeros(len(total)))}

    def to_json(self) -> dict[str, Any]:
        return {
            "bonus": self.bonus._asdict(),
            "levels": dict(zip(BAND_NAMES, self.levels, strict=True)),
            "coefficients": dict(zip(self.features, self.coefficients, strict=True)),
            "with_frequency": dict(zip(self.features, self.with_frequency, strict=True)),
        }


class BandRows(NamedTuple):
    """Rows of `band_matrix`, with the numbers of its columns."""

    matrix: Floats
    number: Mapping[str, int]
    retrievers: int

    @classmethod
    def of(cls, matrix: Floats, retrievers: Sequence[str]) -> BandRows:
        return cls(matrix, {name: n for n, name in enumerate(band_columns(retrievers))}, len(retrievers))

    def some(self, rows: Array) -> BandRows:
        return self._replace(matrix=self.matrix[rows])

    def column(self, name: str) -> Floats:
        return self.matrix[:, self.number[name]]

    @property
    def texts(self) -> Floats:
        return self.column("train_texts")

    @property
    def position(self) -> Floats:
        """In every list (candidates x lists)."""
        return self.matrix[:, -self.retrievers :]

    @property
    def best_position(self) -> Floats:
        """The best place that some list gives a candidate."""
        return np.where(self.position >= 0, self.position, np.inf).min(axis=1)


def band_model(described: Mapping[str, Any]) -> BandModel:
    """From what `to_json` wrote."""
    bonus = described["bonus"]
    names = tuple(map(str, described["coefficients"]))
    return BandModel(
        features=names,
        coefficients=tuple(float(described["coefficients"][name]) for name in names),
        with_frequency=tuple(float(described["with_frequency"][name]) for name in names),
        levels=tuple(float(described["levels"][name]) for name in BAND_NAMES),
        bonus=Bonus(float(bonus["strength"]), float(bonus["below"]), int(bonus["k"])),
    )


def first_ones(plain: Floats, bonus: Floats, offset: Ints, k: int) -> Floats:
    """Scores that put the k candidates with the greatest sum of both first in each pool, by their plain scores, and the
    others behind them by the sum. Sums that are equal in single precision tie; the first candidate then wins."""
    scores: Floats = _first_ones(plain, (plain + bonus).astype(np.float32), offset, k, GAP)
    return scores


@compiled
def _first_ones(plain, raised, offset, k, gap):  # type: ignore[no-untyped-def]
    scores = np.empty(plain.size)
    for p in range(offset.size - 1):
        begin, end = offset[p], offset[p + 1]
        if end - begin <= k:
            scores[begin:end] = plain[begin:end]
            continue
        order = np.argsort(-raised[begin:end], kind="mergesort")
        lowest = np.inf
        for n in range(k):
            lowest = min(lowest, plain[begin + order[n]])
        shift = max(0.0, raised[begin + order[k]] - lowest + gap)
        for n in range(end - begin):
            c = begin + order[n]
            scores[c] = plain[c] if n < k else raised[c] - shift
    return scores
