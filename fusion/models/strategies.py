"""Strategies: cells whose fusion was chosen or learned on judged texts, by fold and label group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fusion.cells import ANY_FOLD, LEARNED, TUNED, Cell
from fusion.kernel.pools import Pools
from fusion.models.features import Features
from fusion.models.models import ChosenCell, Model
from fusion.types import Array

CELL, WEIGHTS, PARAMETERS = (Cell(TUNED, name) for name in ("cell", "weights", "parameters"))
LOGISTIC, LAMBDAMART, BANDS = (Cell(LEARNED, name) for name in ("logistic", "lambdamart", "bands"))
PLATT, ISOTONIC, LOG_ODDS = (Cell(LEARNED, name) for name in ("platt", "isotonic", "logodds"))
STRATEGIES = (CELL, WEIGHTS, PARAMETERS, LOGISTIC, LAMBDAMART, BANDS, PLATT, ISOTONIC, LOG_ODDS)
ON_REQUEST = (PLATT, ISOTONIC, LOG_ODDS)
"""Strategies that are tried only where they are named: BANDS reads the same and is rarely behind them."""
NEEDS = {LAMBDAMART: "lightgbm"}
"""Packages that strategies need to learn; none is needed to apply what they learned."""
DEPLOYED = Cell(TUNED, "model")
"""The cell under which the fusion of a model file is applied."""


@dataclass(frozen=True)
class Strategy:
    """What was chosen or learned, by view and fold."""

    models: Mapping[str, Mapping[int, Model]]

    def of(self, view: str, fold: int) -> Model:
        by_fold = self.models[view]
        return by_fold[fold if fold in by_fold else ANY_FOLD]

    @property
    def cells(self) -> list[Cell]:
        """The cells that were chosen in some fold and view."""
        every = (model for by_fold in self.models.values() for model in by_fold.values())
        return list(dict.fromkeys(model.cell for model in every if isinstance(model, ChosenCell)))


class ChosenScores:
    """The scores of a text block's candidates under strategies. A chosen cell is not computed again: the scores of its
    column are kept on their way."""

    def __init__(
        self,
        strategies: Mapping[Cell, Strategy],
        column_of: Mapping[Cell, int],
        retrievers: Sequence[str],
        pools: Pools,
    ) -> None:
        self._pools, self._retrievers, self._column_of = pools, retrievers, column_of
        self._folds = np.unique(pools.folds).tolist() if strategies else []
        models = [strategy.of(pools.view, fold) for strategy in strategies.values() for fold in self._folds]
        self.columns = {column_of[model.cell] for model in models if isinstance(model, ChosenCell)}
        """The columns whose scores some strategy takes."""
        self._kept: dict[int, Array] = {}

    def keep(self, column: int, scores: Array) -> None:
        """Keep the scores of a column if some strategy takes them."""
        if column in self.columns:
            self._kept[column] = scores

    def scores(self, strategy: Strategy, precision: type[np.floating]) -> Array:
        """Of all candidates, by the folds of their pools."""
        pools = self._pools
        scores = np.empty(pools.position.shape[1])
        for fold in self._folds:
            model = strategy.of(pools.view, fold)
            if isinstance(model, ChosenCell):
                of_fold = np.repeat(pools.folds == fold, np.diff(pools.offset))
                scores[of_fold] = self._kept[self._column_of[model.cell]][of_fold]
            else:
                model.score(self._features, np.flatnonzero(pools.folds == fold), scores)
        return scores.astype(precision)

    @cached_property
    def _features(self) -> Features:
        return Features(self._pools, self._retrievers)
