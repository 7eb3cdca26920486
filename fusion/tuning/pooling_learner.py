"""Learns the fusions of calibrated scores: the curve of each retriever, what a missing label means, and weights.

The weights of log-odds pooling are those of the greatest likelihood, with the prior as it is: a weight of 1 for every
list means that the lists are independent, and less that they say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from fusion.models.bands import BAND_NAMES, band_of
from fusion.models.calibration import Calibration, fit_isotonic, fit_platt
from fusion.models.pooling import CalibratedModel, ListOdds, LogOddsModel
from fusion.tuning.band_learner import Judged
from fusion.tuning.learners import add_rows, newton
from fusion.types import Array, Floats, rounded

Fit = Callable[[Floats, Array], Calibration]
CURVES: Mapping[str, Fit] = {"platt": fit_platt, "isotonic": fit_isotonic}
FUSED_BY = ("combmax", "combsum", "combmnz")
"""The fusions that calibrated scores are tried with."""
PENALTY = 1e-3
"""Of the squared weights: enough to have weights where a list says nothing."""


def train_calibrated(judged: Judged, retrievers: Sequence[str], curve: str, fusion: str) -> CalibratedModel:
    """Curves, and the fusion that reads them."""
    return CalibratedModel(tuple(retrievers), tuple(_curve(judged, name, curve) for name in retrievers), fusion)


def train_log_odds(judged: Judged, retrievers: Sequence[str], curve: str, training_texts: float) -> LogOddsModel:
    """Curves, missing labels, and then the weights of what these say."""
    lists = []
    band = band_of(judged.rows.texts)
    for name in retrievers:
        listed = judged.rows.column(f"{name}.listed") > 0
        others = np.bincount(band[~listed], minlength=len(BAND_NAMES))
        relevant = np.bincount(band[~listed & judged.relevant], minlength=len(BAND_NAMES))
        missing = tuple(rounded(share) for share in ((relevant + 0.5) / (others + 1)).tolist())
        least = rounded(0.5 / (1 + int(listed.sum())))
        lists.append(ListOdds(_curve(judged, name, curve), least, missing))
    model = LogOddsModel(tuple(retrievers), tuple(lists), training_texts)
    prior, evidence = model.evidence(judged.rows, judged.offset)
    rows = np.ascontiguousarray(np.stack(evidence, axis=1))
    weights = newton(
        partial(add_rows, rows, judged.relevant.astype(np.float64), prior),
        np.ones(len(lists)),
        np.full(len(lists), PENALTY),
    )
    weighted = [replace(of, weight=rounded(weight)) for of, weight in zip(lists, weights.tolist(), strict=True)]
    return replace(model, lists=tuple(weighted))


def _curve(judged: Judged, name: str, curve: str) -> Calibration:
    listed = judged.rows.column(f"{name}.listed") > 0
    if not listed.any():
        # A list that is always empty: its curve is never asked.
        return fit_platt(np.zeros(1), np.zeros(1, np.bool_))
    return CURVES[curve](judged.rows.column(f"{name}.score")[listed], judged.relevant[listed])
