"""Fusions of calibrated scores: each retriever's scores become probabilities, which are comparable.

`CalibratedModel` gives the probabilities to a fusion of the registry, as a normalisation does. `LogOddsModel` adds up
the evidence of the lists, with the frequency of the label in training as the prior:

    score = prior + sum over lists of weight * (logit p - prior),  prior = ln((n + 1/2) / (N - n + 1/2))

with n of N training texts that carry the label. For a label that a list lacks, p is the share of relevant labels among
those that the list lacked on validation texts, by frequency band; a retriever that returned nothing for a text says
nothing. The score is the logit of a probability.

Dietrich, F., List, C. (2016). Probabilistic opinion pooling. Genest, C., Zidek, J. (1986). Combining probability
distributions: a critique and an annotated bibliography.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusion.kernel.candidates import Candidates
from fusion.models.bands import BAND_NAMES, BandRows, band_of
from fusion.models.calibration import Calibration, Isotonic, calibration_from_json
from fusion.registry import FUSIONS, NORMALIZATIONS
from fusion.types import Array, Floats, Ints

UNSCALED = "none"
"""The normalisation of scores that are probabilities already."""


@dataclass(frozen=True)
class CalibratedModel:
    """Probabilities, fused as the scores of a normalisation are."""

    retrievers: tuple[str, ...]
    curves: tuple[Calibration, ...]
    fusion: str

    def __str__(self) -> str:
        return f"{kind_of(self.curves)}+{self.fusion}"

    def score(self, features: Any, pools: Ints, scores: Floats) -> None:
        """Fill in the scores of the candidates of some pools."""
        block = features.pools
        order = [features.retrievers.index(name) for name in self.retrievers]
        values = np.empty(block.score.shape)
        for r, curve in zip(order, self.curves, strict=True):
            values[r] = curve.probabilities(block.score[r])
        fusion = FUSIONS[self.fusion]
        candidates = Candidates(block, NORMALIZATIONS[UNSCALED], values)
        fused = fusion.kernel(candidates, **fusion.arguments(features.retrievers))
        inside, _ = features.candidates(pools)
        scores[inside] = fused[inside]

    def parts(self, features: Any) -> dict[str, Floats]:
        """The probability that each list gives; none where it lacks a label."""
        listed = features.pools.position >= 0
        order = [features.retrievers.index(name) for name in self.retrievers]
        return {
            name: np.where(listed[r], curve.probabilities(features.pools.score[r]), np.nan)
            for name, r, curve in zip(self.retrievers, order, self.curves, strict=True)
        }

    def to_json(self) -> dict[str, Any]:
        curves = {name: {"curve": curve.to_json()} for name, curve in zip(self.retrievers, self.curves, strict=True)}
        return {"calibration": kind_of(self.curves), "fusion": self.fusion, "retrievers": curves}


@dataclass(frozen=True)
class ListOdds:
    """What a retriever's list says of a label, as log-odds."""

    curve: Calibration
    least: float
    """Probabilities are at least this, and at most 1 less this: fewer rows than that were looked at."""
    missing: tuple[float, ...]
    """The probability of a label that the list lacks, by frequency band."""
    weight: float = 1.0

    def log_odds(self, listed: Array, scores: Floats, texts: Floats) -> Floats:
        """The logit of p."""
        missing = np.array(self.missing)[band_of(texts)]
        p = np.clip(np.where(listed, self.curve.probabilities(scores), missing), self.least, 1 - self.least)
        return np.log(p / (1 - p))

    def to_json(self) -> dict[str, Any]:
        missing = dict(zip(BAND_NAMES, self.missing, strict=True))
        return {"weight": self.weight, "curve": self.curve.to_json(), "least": self.least, "missing": missing}


@dataclass(frozen=True)
class LogOddsModel:
    """The weighted evidence of all lists."""

    retrievers: tuple[str, ...]
    lists: tuple[ListOdds, ...]
    training_texts: float
    """N of the formula above."""

    def __str__(self) -> str:
        weights = ", ".join(f"{name} {of.weight:.3g}" for name, of in zip(self.retrievers, self.lists, strict=True))
        return f"{kind_of([of.curve for of in self.lists])}+logodds: {weights}"

    def score(self, features: Any, pools: Ints, scores: Floats) -> None:
        """Fill in the scores of the candidates of some pools."""
        inside, bounds = features.candidates(pools)
        prior, evidence = self.evidence(features.band_rows.some(inside), bounds)
        total = prior.copy()
        for of_list in evidence:
            total += of_list
        scores[inside] = total

    def parts(self, features: Any) -> dict[str, Floats]:
        """What each list adds to the scores of all candidates, and the prior."""
        prior, evidence = self.evidence(features.band_rows, features.pools.offset)
        return {**dict(zip(self.retrievers, evidence, strict=True)), "other": prior}

    def evidence(self, rows: BandRows, bounds: Ints) -> tuple[Floats, list[Floats]]:
        """The prior, and what each list adds to it."""
        prior = self.prior(rows.texts)
        evidence = []
        for name, of in zip(self.retrievers, self.lists, strict=True):
            listed = rows.column(f"{name}.listed") > 0
            difference = of.log_odds(listed, rows.column(f"{name}.score"), rows.texts) - prior
            evidence.append(np.where(answered(listed, bounds), of.weight * difference, 0.0))
        return prior, evidence

    def prior(self, texts: Floats) -> Floats:
        return np.log((texts + 0.5) / (np.maximum(self.training_texts - texts, 0.0) + 0.5))

    def to_json(self) -> dict[str, Any]:
        lists = {name: of.to_json() for name, of in zip(self.retrievers, self.lists, strict=True)}
        calibration = kind_of([of.curve for of in self.lists])
        return {
            "calibration": calibration,
            "fusion": "logodds",
            "training_texts": self.training_texts,
            "retrievers": lists,
        }


def answered(listed: Array, bounds: Ints) -> Array:
    """Whether a list holds any label of a candidate's text; texts are rows from one bound to the next."""
    held = np.append(0, np.cumsum(listed))[bounds]
    return np.repeat(np.diff(held) > 0, np.diff(bounds))


def kind_of(curves: Any) -> str:
    return "isotonic" if any(isinstance(curve, Isotonic) for curve in curves) else "platt"


def pooled_model(described: Mapping[str, Any]) -> CalibratedModel | LogOddsModel:
    """From what `to_json` wrote."""
    by_name = described["retrievers"]
    names = tuple(map(str, by_name))
    curves = [calibration_from_json(by_name[name]["curve"]) for name in names]
    if described["fusion"] != "logodds":
        return CalibratedModel(names, tuple(curves), FUSIONS[described["fusion"]].name)
    lists = [
        ListOdds(
            curve=curve,
            least=float(by_name[name]["least"]),
            missing=tuple(float(by_name[name]["missing"][band]) for band in BAND_NAMES),
            weight=float(by_name[name]["weight"]),
        )
        for name, curve in zip(names, curves, strict=True)
    ]
    return LogOddsModel(names, tuple(lists), float(described["training_texts"]))
