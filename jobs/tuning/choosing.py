"""Choices among cells: for every fold, on the validation texts that serve it; and over all folds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fusion.cells import Cell
from fusion.models.models import ChosenCell, Model
from fusion.models.strategies import CELL, PARAMETERS, WEIGHTS
from fusion.registry import FUSIONS
from fusion.tuning.search import around, parameter_cells, weighted_cells
from jobs.runtime.log import log
from jobs.settings.sections import TuneSettings
from jobs.tuning.validation import Texts, Tried, Validation, best_of, count_cells
from udfs.plan import EvaluationPlan
from udfs.tuning import Parting

FIRST_DISTANCE = 0.025
"""How far from the best weights the second pass looks; later passes look half as far."""


@dataclass(frozen=True)
class Choice:
    """What a strategy chose for a fold (ANY_FOLD: over all folds) and a set of views that share it."""

    strategy: Cell
    fold: int
    name: str
    """Of the set of views."""
    model: Model
    value: float | None
    """The objective on validation texts; of a learned fusion, on those that it had not learned from."""
    held_out: float | None = None
    """The objective on the half of the texts that had no part in the choice, each half once."""
    option: int = 0
    halves: Mapping[int, Model] = field(default_factory=dict)
    """What was chosen or learned on the other half of the texts, by the codes of the texts held out; over all folds."""


@dataclass
class Families:
    """The cells of each tuned strategy: those that are tried for all folds, and those that the search for a fold
    came to. Where other folds look is nothing that a fold may know: their validation texts may be its test texts."""

    cells: dict[Cell, list[Cell]]
    further: dict[tuple[Cell, int], list[Cell]] = field(default_factory=dict)

    def of_fold(self, strategy: Cell, fold: int) -> list[Cell]:
        return [*self.cells[strategy], *self.further.get((strategy, fold), ())]

    @classmethod
    def of(cls, strategies: Sequence[Cell], fixed: Sequence[Cell], retrievers: Sequence[str], most: int) -> Families:
        families: dict[Cell, list[Cell]] = {}
        if CELL in strategies:
            families[CELL] = [cell for cell in fixed if not FUSIONS[cell.fusion].parameters.trained]
        if PARAMETERS in strategies:
            families[PARAMETERS] = parameter_cells()
        if WEIGHTS in strategies:
            left = most - sum(map(len, families.values()))
            families[WEIGHTS] = weighted_cells(retrievers, left)
        return cls(families)

    @property
    def every(self) -> list[Cell]:
        both = (*self.cells.values(), *self.further.values())
        return list(dict.fromkeys(cell for family in both for cell in family))


def try_cells(
    validation: Validation,
    evaluation: EvaluationPlan,
    families: Families,
    together: Mapping[str, tuple[str, ...]],
    parting: Parting,
    settings: TuneSettings,
) -> Tried:
    """Count all cells over the validation texts, then those around the best ones."""
    tried = Tried(settings.goal, parting)
    wanted = families.every
    distance = FIRST_DISTANCE
    for number in range(settings.passes):
        if not wanted:
            break
        log(f"pass {number + 1}: {len(wanted):,} cells on validation texts")
        of_pass = replace(evaluation, cells=tuple(wanted))
        tried.passes.append((of_pass, count_cells(validation.lists, of_pass, parting, None)))
        known = set(families.every)
        if number + 1 < settings.passes:
            _look_around(tried, families, validation, together, distance)
        wanted = [cell for cell in families.every if cell not in known]
        distance /= 2
    return tried


def _look_around(
    tried: Tried,
    families: Families,
    validation: Validation,
    together: Mapping[str, tuple[str, ...]],
    distance: float,
) -> None:
    """Add the neighbours of each fold's best cells to what is tried for that fold."""
    retrievers = validation.lists.layout.retrievers
    for fold, bases in validation.served.items():
        values = [tried.values(Texts(bases), views) for views in together.values()]
        for strategy in (strategy for strategy in families.cells if strategy != CELL):
            family = families.of_fold(strategy, fold)
            best = dict.fromkeys(best_of(of_views, family) for of_views in values)
            new = [cell for cell in around(best, retrievers, distance) if cell not in set(family)]
            families.further.setdefault((strategy, fold), []).extend(new)


def choose(
    tried: Tried, families: Families, validation: Validation, together: Mapping[str, tuple[str, ...]]
) -> list[Choice]:
    """The choices of the tuned strategies, by fold and over all folds."""
    choices: list[Choice] = []
    for fold, bases in validation.served.items() if families.cells else ():
        for name, views in together.items():
            values = tried.values(Texts(bases), views)
            halves = [tried.values(Texts(bases, half), views) for half in (0, 1)]
            texts = [max(1, tried.texts(Texts(bases, half), views[0])) for half in (0, 1)]
            for strategy in families.cells:
                family = families.of_fold(strategy, fold)
                best = best_of(values, family)
                others = [best_of(of_half, family) for of_half in halves]
                held_out = (halves[0][others[1]] * texts[0] + halves[1][others[0]] * texts[1]) / sum(texts)
                of_halves = {
                    validation.parting.halves.code(base, half, 0): ChosenCell(others[1 - half])
                    for base in bases
                    for half in (0, 1)
                }
                choices.append(Choice(strategy, fold, name, ChosenCell(best), values[best], held_out, halves=of_halves))
    return choices


def views_together(evaluation: EvaluationPlan, shared: bool) -> dict[str, tuple[str, ...]]:
    """The sets of views that share a choice, by name."""
    return {"+".join(evaluation.views): evaluation.views} if shared else {view: (view,) for view in evaluation.views}


def strategy_models(choices: Sequence[Choice], together: Mapping[str, tuple[str, ...]]) -> dict[Cell, Any]:
    """By strategy, view and fold."""
    models: dict[Cell, dict[str, dict[int, Model]]] = {}
    for choice in choices:
        for view in together[choice.name]:
            models.setdefault(choice.strategy, {}).setdefault(view, {})[choice.fold] = choice.model
    return models
