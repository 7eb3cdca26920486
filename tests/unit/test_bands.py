"""The fusion that is safe in every frequency band: its features, its regression, its bonus, and who comes first."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from fusion.models.bands import (
    BAND_NAMES,
    LAST_OF_BAND,
    BandModel,
    BandRows,
    Bonus,
    band_columns,
    band_matrix,
    band_of,
    first_ones,
    frequency,
)
from fusion.models.features import Features
from fusion.models.models import model_from_json
from fusion.tuning.band_learner import (
    FIRST_PLACES,
    OF_FEATURE,
    OF_FREQUENCY,
    OF_LEVEL,
    Judged,
    _regression,
    train_bands,
)
from tests.unit.test_learned_scores import POOLS, RETRIEVERS

MATRIX = band_matrix(POOLS)
ROWS = BandRows.of(MATRIX, RETRIEVERS)


def judged(seed: int, shown: float = 1.0) -> Judged:
    """Labels of high rank, and rare ones, are more often relevant."""
    rng = np.random.default_rng(seed)
    chance = ROWS.column("bm25.listed") * 0.3 / (1 + ROWS.column("bm25.log_tied_rank")) + (ROWS.texts == 0) * 0.2
    relevant = rng.random(len(MATRIX)) < chance * shown
    labels = np.add.reduceat(np.append(relevant, 0), POOLS.offset[:-1]) * (np.diff(POOLS.offset) > 0)
    return Judged(ROWS, relevant, POOLS.offset, labels + rng.integers(0, 3, len(labels)))


def test_bands() -> None:
    assert len(BAND_NAMES) == len(LAST_OF_BAND) + 1
    names = [BAND_NAMES[band] for band in band_of(np.array([0, 1, 2, 3, 5, 6, 10, 11, 26, 51, 100, 101, 9999]))]
    assert names == [
        "0",
        "1-2",
        "1-2",
        "3-5",
        "3-5",
        "6-10",
        "6-10",
        "11-25",
        "26-50",
        "51-100",
        "51-100",
        ">100",
        ">100",
    ]


def test_equal_scores_share_their_mean_place() -> None:
    for p in range(len(POOLS.source)):
        inside = slice(POOLS.offset[p], POOLS.offset[p + 1])
        for r in range(len(RETRIEVERS)):
            position, score = POOLS.position[r, inside], POOLS.score[r, inside]
            for place, value, mean in zip(position, score, POOLS.mean_position[r, inside], strict=True):
                expected = position[(position >= 0) & (score == value)].mean() if place >= 0 else -1
                assert mean == expected
    tied = POOLS.mean_position != POOLS.position
    assert 0.2 < tied.mean() < 0.9


def test_the_regression_is_the_optimum_of_its_loss() -> None:
    data = judged(1)
    model = _regression(data, RETRIEVERS, 5)
    kept = ROWS.best_position < FIRST_PLACES
    text = np.repeat(np.arange(len(POOLS.source)), np.diff(POOLS.offset))[kept]
    features = np.stack([ROWS.column(name) for name in model.features], axis=1)[kept]
    x = frequency(ROWS.texts[kept])[:, None]
    matrix = np.concatenate([np.eye(8)[band_of(ROWS.texts[kept])], features, features * x], axis=1)
    relevant = data.relevant[kept]
    penalty = np.repeat([OF_LEVEL, OF_FEATURE, OF_FREQUENCY], [8, features.shape[1], features.shape[1]])

    def loss(weights: np.ndarray) -> float:
        u = matrix @ weights
        total = 0.5 * np.sum(penalty * weights**2)
        for number in np.unique(text[relevant]):
            here = text == number
            rest = np.exp(u[here & ~relevant]).sum()
            total += np.sum(np.log1p(rest / np.exp(u[here & relevant])))
        return float(total)

    ours = np.array([*model.levels, *model.coefficients, *model.with_frequency])
    best = minimize(loss, ours, method="L-BFGS-B")
    assert loss(ours) <= best.fun + 1e-5
    assert loss(ours) < loss(np.zeros(len(ours))) - 10


@pytest.mark.parametrize("k", [1, 5, 10])
def test_the_first_k_are_chosen_by_the_sum_and_ordered_by_the_score(k: int) -> None:
    rng = np.random.default_rng(k)
    plain = rng.normal(0, 3, len(MATRIX)).round(1)
    bonus = rng.integers(0, 3, len(MATRIX)).astype(float)
    scores = first_ones(plain, bonus, POOLS.offset, k).astype(np.float32)
    for begin, end in zip(POOLS.offset[:-1], POOLS.offset[1:], strict=True):
        places = np.arange(begin, end)
        by_sum = sorted(places, key=lambda c: (-np.float32(plain[c] + bonus[c]), c))
        first = sorted(by_sum[:k], key=lambda c: (-np.float32(plain[c]), c))
        ranked = sorted(places, key=lambda c: (-scores[c], c))
        assert ranked[:k] == first and ranked[k:] == by_sum[k:]


def test_a_bonus_is_for_rare_labels_near_the_top() -> None:
    bonus = Bonus(2.0, 10.0, 5)
    values = bonus.of(np.array([0.0, 3.0, 10.0, 500.0, 0.0]), np.array([0, 9, 0, 0, 10]))
    assert values.tolist() == [2 * np.log(11.5 / 1.5), 2 * np.log(11.5 / 4.5), 0, 0, 0]


def test_learning_is_the_same_to_the_byte() -> None:
    data = judged(3)
    half = np.arange(len(POOLS.source)) % 2
    model = train_bands(data, half, RETRIEVERS, 5)
    assert train_bands(judged(3), half, RETRIEVERS, 5) == model
    assert model.bonus.k == 5
    read = model_from_json(model.to_json(), None, "test")
    assert read == model and isinstance(read, BandModel)


def test_scores_do_not_depend_on_what_is_scored_together() -> None:
    model = train_bands(judged(4), np.arange(len(POOLS.source)) % 2, RETRIEVERS, 5)
    together, alone = np.full(len(MATRIX), np.nan), np.full(len(MATRIX), np.nan)
    model.score(Features(POOLS, RETRIEVERS), np.arange(len(POOLS.source)), together)
    some = np.array([3, 4, 90, 7])
    model.score(Features(POOLS, RETRIEVERS), some, alone)
    inside = np.isin(np.repeat(np.arange(len(POOLS.source)), np.diff(POOLS.offset)), some)
    np.testing.assert_array_equal(alone, np.where(inside, together, np.nan))
    assert len(band_columns(RETRIEVERS)) == MATRIX.shape[1]
