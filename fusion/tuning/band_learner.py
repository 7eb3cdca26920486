"""Learns the fusion of fusion/models/bands.py: a listwise logistic regression, and the bonus of rare labels.

The regression minimises, over the texts and their relevant candidates i,

    sum ln(1 + sum over the text's other candidates j that are not relevant of exp(u_j - u_i)) + penalty / 2 * weights^2

The bonus is chosen on scores of texts that the regression behind them has not seen, each half of the texts once. Of all
strengths and limits, those count that fall least short, over the frequency bands, of what the best single retriever of
each band finds in its first k; of these, the one with the greatest nDCG@k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.ranking import relevant_ranks
from fusion.models.bands import BAND_NAMES, OF_LIST, BandModel, BandRows, Bonus, band_of, first_ones, frequency
from fusion.tuning.learners import newton
from fusion.types import Array, Floats, Ints, rounded

FIRST_PLACES = 40
"""The regression looks at candidates that some list has among its first places: others hardly reach the first k."""
LARGEST_COSINE = 1.5
"""Scores that stay below this are comparable across texts, and are a feature themselves."""
OF_LEVEL, OF_FEATURE, OF_FREQUENCY = 0.1, 0.01, 1.0
"""Penalties: of the bands' levels, of features, and of features times the frequency."""
STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0)
LIMITS = (1, 2, 5, 10, 25, 50, 100, 250)
MARGIN = 0.5
"""A band is to exceed the best single retriever by this many roots of what that finds: what is level on validation
texts may fall short on others."""
SLACK = 0.25
"""Shortfalls that differ by less are equal."""


class Judged(NamedTuple):
    """Rows of candidates, text after text."""

    rows: BandRows
    relevant: Array
    offset: Ints
    """Where each text's rows begin, and at the end where the last one's end."""
    labels: Ints
    """The number of relevant labels of each text, also of those that no list holds."""

    def of_texts(self, chosen: Array) -> Judged:
        sizes = np.diff(self.offset)
        inside = np.repeat(chosen, sizes)
        offset = np.append(0, np.cumsum(sizes[chosen]))
        rows = self.rows.some(inside)
        return Judged(rows, self.relevant[inside], offset, self.labels[chosen])


def train_bands(judged: Judged, half: Array, retrievers: Sequence[str], k: int) -> BandModel:
    """`half`: 0 or 1 for each text."""
    scores = np.zeros(len(judged.relevant))
    for number in (0, 1):
        others = judged.of_texts(half != number)
        model = _regression(others if others.relevant.any() else judged, retrievers, k)
        inside = np.repeat(half == number, np.diff(judged.offset))
        scores[inside] = model.plain(judged.of_texts(half == number).rows)
    model = _regression(judged, retrievers, k)
    return BandModel(model.features, model.coefficients, model.with_frequency, model.levels, _bonus(judged, scores, k))


def _regression(judged: Judged, retrievers: Sequence[str], k: int) -> BandModel:
    """The model without a bonus."""
    features = [f"{name}.{feature}" for name in retrievers for feature in OF_LIST if feature != "score"]
    features += [f"{name}.score" for name in retrievers if _is_cosine(judged.rows.column(f"{name}.score"))]
    kept = judged.rows.best_position < FIRST_PLACES
    rows = judged.rows.some(kept)
    offset = np.append(0, np.cumsum(kept))[judged.offset]
    of_lists = np.stack([rows.column(name) for name in features], axis=1)
    levels = np.eye(len(BAND_NAMES))[band_of(rows.texts)]
    matrix = np.concatenate([levels, of_lists, of_lists * frequency(rows.texts)[:, None]], axis=1)
    sizes = (len(BAND_NAMES), len(features), len(features))
    penalty = np.repeat([OF_LEVEL, OF_FEATURE, OF_FREQUENCY], sizes)
    weights = newton(partial(_add_texts, matrix, judged.relevant[kept], offset), np.zeros(len(penalty)), penalty)
    of_levels, a, b = np.split(np.array([rounded(weight) for weight in weights.tolist()]), np.cumsum(sizes)[:-1])
    of_features = tuple(a.tolist()), tuple(b.tolist())
    return BandModel(tuple(features), *of_features, tuple(of_levels.tolist()), Bonus(0.0, 1.0, k))


def _is_cosine(scores: Floats) -> bool:
    return bool(np.abs(scores).max(initial=0.0) <= LARGEST_COSINE)


def _bonus(judged: Judged, scores: Floats, k: int) -> Bonus:
    best_position = judged.rows.best_position
    # Nothing else can come into the first k.
    able = first_ones(scores, np.zeros(len(scores)), judged.offset, k)
    kept = (best_position < 2 * k) | (_ranks(able, judged.offset) <= k)
    offset = np.append(0, np.cumsum(kept))[judged.offset]
    texts, plain, best = judged.rows.texts[kept], scores[kept], best_position[kept]
    hit = np.flatnonzero(judged.relevant[kept])
    hit_offset = np.searchsorted(hit, offset)
    band = band_of(texts[hit])
    positions = judged.rows.position[kept][hit]
    target = np.max([_found(band, (of_list >= 0) & (of_list < k)) for of_list in positions.T], axis=0)
    wanted = target + MARGIN * np.sqrt(target)
    discount = 1 / np.log2(np.arange(2, k + 2))
    ideal = np.cumsum(discount)[np.minimum(np.maximum(judged.labels, 1), k) - 1]
    text = np.repeat(np.arange(len(judged.labels)), np.diff(hit_offset))
    tried = []
    for bonus in _bonuses(k):
        ranks = relevant_ranks(
            first_ones(plain, bonus.of(texts, best), offset, k).astype(np.float32), offset, hit, hit_offset
        )
        inside = ranks <= k
        gain = float(np.sum(discount[ranks[inside] - 1] / ideal[text[inside]]))
        short = np.sum(np.maximum(wanted - _found(band, inside), 0) / np.sqrt(target + 1))
        tried.append((rounded(float(short)), rounded(gain), bonus))
    least = min(short for short, _, _ in tried)
    # Of equal ones the first, which has the smaller bonus.
    return max((entry for entry in tried if entry[0] <= least + SLACK), key=lambda entry: entry[1])[2]


def _bonuses(k: int) -> Iterator[Bonus]:
    yield Bonus(0.0, 1.0, k)
    for below in LIMITS:
        for strength in STRENGTHS:
            yield Bonus(strength, float(below), k)


def _found(band: Ints, inside: Array) -> Floats:
    return np.bincount(band[inside], minlength=len(BAND_NAMES)).astype(np.float64)


def _ranks(scores: Floats, offset: Ints) -> Ints:
    """The 1-based rank of every row in its text."""
    every = np.arange(len(scores))
    return relevant_ranks(scores.astype(np.float32), offset, every, offset).astype(np.int64)


@compiled
def _add_texts(rows, relevant, offset, weights, gradient, curvature):  # type: ignore[no-untyped-def]
    # As in fusion.tuning.learners: added up in one order by one thread.
    size = weights.size
    loss = 0.0
    mean, moved, square = np.empty(size), np.empty(size), np.empty((size, size))
    for t in range(offset.size - 1):
        begin, end = offset[t], offset[t + 1]
        if not relevant[begin:end].any():
            continue
        scores = np.empty(end - begin)
        for n in range(begin, end):
            total = 0.0
            for f in range(size):
                total += rows[n, f] * weights[f]
            scores[n - begin] = total
        top = scores.max()
        rest = 0.0
        mean[:] = 0.0
        square[:] = 0.0
        for n in range(begin, end):
            if relevant[n]:
                continue
            mass = np.exp(scores[n - begin] - top)
            rest += mass
            for f in range(size):
                part = mass * rows[n, f]
                mean[f] += part
                for g in range(f + 1):
                    square[f, g] += part * rows[n, g]
        times = 0.0
        for n in range(begin, end):
            if not relevant[n]:
                continue
            mass = max(np.exp(scores[n - begin] - top), 1e-300)
            whole = mass + rest
            own = mass / whole
            times += 1 / whole
            loss += np.log(whole) + top - scores[n - begin]
            for f in range(size):
                moved[f] = own * rows[n, f] + mean[f] / whole
                gradient[f] += moved[f] - rows[n, f]
            for f in range(size):
                part = own * rows[n, f]
                for g in range(f + 1):
                    curvature[f, g] += part * rows[n, g] - moved[f] * moved[g]
        for f in range(size):
            for g in range(f + 1):
                curvature[f, g] += times * square[f, g]
    return loss
