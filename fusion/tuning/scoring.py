"""The scores of strategies for a text block: each pool by what was chosen or learned for its fold and view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from fusion.cells import Cell
from fusion.kernel.pools import Pools
from fusion.tuning.features import feature_matrix, feature_names
from fusion.tuning.models import ChosenCell, Model
from fusion.tuning.strategies import Strategy
from fusion.types import Array, Floats, Ints


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
        view = self._pools.view
        if len(self._folds) == 1:
            return self._of(strategy.of(view, self._folds[0]), slice(None), precision)
        scores = np.empty(self._pools.position.shape[1], precision)
        for fold in self._folds:
            inside = np.flatnonzero(self._candidate_folds == fold)
            scores[inside] = self._of(strategy.of(view, fold), inside, precision)
        return scores

    def _of(self, model: Model, inside: Ints | slice, precision: type[np.floating]) -> Array:
        if isinstance(model, ChosenCell):
            return self._kept[self._column_of[model.cell]][inside]
        columns = [self._features[name] for name in model.features]
        matrix = self._matrix[inside]
        if columns != list(range(matrix.shape[1])):
            matrix = np.ascontiguousarray(matrix[:, columns])
        return model.scores(matrix).astype(precision)

    @cached_property
    def _candidate_folds(self) -> Array:
        return np.repeat(self._pools.folds, np.diff(self._pools.offset))

    @cached_property
    def _features(self) -> dict[str, int]:
        names = feature_names(self._retrievers, self._pools.train_texts is not None)
        return {name: number for number, name in enumerate(names)}

    @cached_property
    def _matrix(self) -> Floats:
        return feature_matrix(self._pools)
