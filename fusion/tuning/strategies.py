"""Strategies: cells whose fusion was chosen or learned on judged texts, by fold and label group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusion.cells import LEARNED, TUNED, Cell
from fusion.learning import ANY_FOLD
from fusion.tuning.models import ChosenCell, Model

CELL, WEIGHTS, PARAMETERS = (Cell(TUNED, name) for name in ("cell", "weights", "parameters"))
LOGISTIC, LAMBDAMART = (Cell(LEARNED, name) for name in ("logistic", "lambdamart"))
STRATEGIES = (CELL, WEIGHTS, PARAMETERS, LOGISTIC, LAMBDAMART)
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
