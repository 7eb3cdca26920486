"""Fusions of calibrated scores: by the definitions, candidate by candidate."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fusion.errors import InputError
from fusion.models.bands import BandRows, band_of, train_texts
from fusion.models.calibration import fit_isotonic, fit_platt
from fusion.models.features import Features
from fusion.models.models import model_from_json
from fusion.models.pooling import CalibratedModel, LogOddsModel
from fusion.tuning.band_learner import Judged
from fusion.tuning.pooling_learner import CURVES, FUSED_BY, train_calibrated, train_log_odds
from tests.unit.test_bands import MATRIX, ROWS, judged
from tests.unit.test_learned_scores import POOLS, RETRIEVERS

TEXTS = train_texts(POOLS)
TEXT = np.repeat(np.arange(len(POOLS.source)), np.diff(POOLS.offset))
N = 500.0


def scores_of(model: CalibratedModel | LogOddsModel) -> np.ndarray:
    scores = np.full(len(MATRIX), np.nan)
    model.score(Features(POOLS, RETRIEVERS), np.arange(len(POOLS.source)), scores)
    return scores


@pytest.mark.parametrize("fusion", FUSED_BY)
@pytest.mark.parametrize("curve", CURVES)
def test_calibrated_scores_are_fused_as_others_are(curve: str, fusion: str) -> None:
    data = judged(1)
    model = train_calibrated(data, RETRIEVERS, curve, fusion)
    fit = {"platt": fit_platt, "isotonic": fit_isotonic}[curve]
    listed = POOLS.position >= 0
    curves = [fit(POOLS.score[r, listed[r]], data.relevant[listed[r]]) for r in range(2)]
    assert list(model.curves) == curves and str(model) == f"{curve}+{fusion}"
    for c, score in list(enumerate(scores_of(model)))[::7]:
        x = [curves[r].probabilities(POOLS.score[r, c : c + 1])[0] for r in range(2) if listed[r, c]]
        expected = {"combmax": max(x), "combsum": sum(x), "combmnz": sum(x) * len(x)}[fusion]
        assert score == pytest.approx(expected, rel=1e-12)
    assert model_from_json(model.to_json(), None, "test") == model


@pytest.mark.parametrize("curve", CURVES)
def test_log_odds_by_the_definition(curve: str) -> None:
    data = judged(2)
    model = train_log_odds(data, RETRIEVERS, curve, N)
    listed, band = POOLS.position >= 0, band_of(TEXTS)
    for c, score in list(enumerate(scores_of(model)))[::7]:
        prior = math.log((TEXTS[c] + 0.5) / (N - TEXTS[c] + 0.5))
        total = prior
        for r, of in enumerate(model.lists):
            if not listed[r, np.equal(TEXT, TEXT[c])].any():
                continue
            lacking = ~listed[r] & (band == band[c])
            p = (data.relevant[lacking].sum() + 0.5) / (lacking.sum() + 1)
            if listed[r, c]:
                p = of.curve.probabilities(POOLS.score[r, c : c + 1])[0]
            p = min(max(p, of.least), 1 - of.least)
            total += of.weight * (math.log(p / (1 - p)) - prior)
        assert score == pytest.approx(total, rel=1e-6)
    assert model_from_json(model.to_json(), None, "test") == model


def test_weights_have_the_greatest_likelihood() -> None:
    data = judged(3)
    model = train_log_odds(data, RETRIEVERS, "platt", N)

    def loss(weights: list[float]) -> float:
        lists = zip(model.lists, weights, strict=True)
        moved = LogOddsModel(RETRIEVERS, tuple(type(of)(of.curve, of.least, of.missing, w) for of, w in lists), N)
        score = scores_of(moved)
        return float(np.sum(np.logaddexp(0, score) - data.relevant * score))

    weights = [of.weight for of in model.lists]
    for moved in ([0.01, 0], [-0.01, 0], [0, 0.01], [0, -0.01]):
        assert loss(weights) < loss([w + d for w, d in zip(weights, moved, strict=True)])


def test_the_order_of_the_retrievers_does_not_matter() -> None:
    turned = RETRIEVERS[::-1]
    columns = [ROWS.number[name] for name in BandRows.of(MATRIX, turned).number]
    data = judged(4)
    other = Judged(BandRows.of(MATRIX[:, columns], turned), data.relevant, data.offset, data.labels)
    ours, theirs = train_log_odds(data, RETRIEVERS, "platt", N), train_log_odds(other, turned, "platt", N)
    np.testing.assert_allclose(scores_of(ours), scores_of(theirs), rtol=1e-6)
    calibrated = train_calibrated(other, turned, "isotonic", "combsum")
    assert (
        scores_of(calibrated).tolist() == scores_of(train_calibrated(data, RETRIEVERS, "isotonic", "combsum")).tolist()
    )


def test_damaged_models_are_refused() -> None:
    described = train_calibrated(judged(1), RETRIEVERS, "platt", "combsum").to_json()
    described["retrievers"]["bm25"]["curve"]["slope"] = -1
    with pytest.raises(InputError):
        model_from_json(described, None, "model.json")
    with pytest.raises(InputError, match=r"model\.json: not a model"):
        model_from_json({"calibration": "platt", "fusion": "combsum"}, None, "model.json")
