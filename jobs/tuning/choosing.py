"""Choices among cells: for every fold, on the validation texts that serve it; over all folds; and for the model file.

The model file holds, of the strategies that are not significantly different from the best one, the best that loses in
no frequency band. Both are tested on validation texts that had no part in what was chosen or learned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import Cell
from fusion.models.bands import BAND_NAMES
from fusion.models.models import ChosenCell, Model
from fusion.models.strategies import CELL, PARAMETERS, WEIGHTS, Strategy
from fusion.registry import FUSIONS
from fusion.statistics.coverage import FEWEST_PAIRS, Coverage
from fusion.statistics.significance import best_of, holm, paired_t, sign_change_p
from fusion.tuning.search import Objective, around, parameter_cells, weighted_cells
from fusion.types import Floats
from jobs.runtime.log import log
from jobs.settings.sections import TuneSettings
from jobs.tuning.learning import first_labels
from jobs.tuning.validation import Texts, Tried, Validation, best_in, count_cells
from udfs.held_out import held_out_bands, held_out_figures
from udfs.plan import EvaluationPlan
from udfs.tuning import Parting, TrainTexts

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
            best = dict.fromkeys(best_in(of_views, family) for of_views in values)
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
                best = best_in(values, family)
                others = [best_in(of_half, family) for of_half in halves]
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


ALPHA = 0.05


class HeldOut(NamedTuple):
    """How a strategy does on texts that had no part in it."""

    value: float
    """The objective."""
    tied: bool
    """Whether it is the best of its label groups, or not significantly different from the best."""
    lost: tuple[str, ...] | None
    """The frequency bands in which it finds significantly fewer relevant labels than the best single retriever of the
    band; None where it is not known how many training texts carry a label."""


def held_out(
    *,
    lists: pa.Table,
    evaluation: EvaluationPlan,
    parting: Parting,
    train_texts: TrainTexts | None,
    objective: Objective,
    together: Mapping[str, tuple[str, ...]],
    choices: Sequence[Choice],
) -> dict[str, dict[Cell, HeldOut]]:
    """By set of views, of the strategies that were chosen or learned on either half of the texts in all of them.
    `choices`: those over all folds; `parting`: into halves."""
    models: dict[Cell, dict[str, Mapping[int, Model]]] = {}
    for choice in choices:
        for view in together[choice.name]:
            models.setdefault(choice.strategy, {})[view] = choice.halves
    codes = {code for choice in choices for code in choice.halves}
    strategies = {
        cell: Strategy(by_view)
        for cell, by_view in models.items()
        if all(set(by_view.get(view, ())) == codes for view in evaluation.views)
    }
    if not strategies:
        return {}
    tested = replace(evaluation, strategies=strategies)
    figures = held_out_figures(lists, tested, parting, train_texts)
    coverage = None
    if train_texts is not None:
        coverage = held_out_bands(lists, tested, parting, train_texts, first_labels(objective))
    found = {}
    for name, views in together.items():
        values = {cell: _by_text(figures, cell, views, objective) for cell in strategies}
        tied = _tied(values)
        found[name] = {
            cell: HeldOut(
                float(values[cell].mean()),
                cell in tied,
                None if coverage is None else _lost(coverage, tested, cell, views),
            )
            for cell in strategies
        }
    return found


def best_choice(choices: Sequence[Choice], held: Mapping[Cell, HeldOut]) -> Choice:
    """Of one set of views. Where every strategy that is not significantly different from the best one loses in some
    band, the best one."""
    tested = [choice for choice in choices if choice.strategy in held]
    if not tested:
        return max(choices, key=lambda choice: -1.0 if choice.held_out is None else choice.held_out)
    safe = [choice for choice in tested if held[choice.strategy].tied and held[choice.strategy].lost == ()]
    return max(safe or tested, key=lambda choice: held[choice.strategy].value)


def _by_text(figures: pa.Table, cell: Cell, views: Sequence[str], objective: Objective) -> Floats:
    """The objective of a cell for every text, as the mean over views and over the folds that it validates."""
    of_cell = [("normalization", [cell.normalization]), ("fusion", [cell.fusion]), ("label_group", list(views))]
    for column, wanted in of_cell:
        figures = figures.filter(pc.is_in(figures[column], pa.array(wanted)))
    figures = figures.sort_by([(column, "ascending") for column in ("text_id", "fold", "label_group")])
    terms = [weight * figures[str(metric)].to_numpy() for weight, metric in objective.terms]
    text = figures["text_id"].to_numpy()
    first = np.flatnonzero(np.append(True, text[1:] != text[:-1]))
    means: Floats = np.add.reduceat(np.sum(terms, axis=0), first) / np.diff(np.append(first, len(text)))
    return means


def _tied(values: Mapping[Cell, Floats]) -> set[Cell]:
    """The best cell, and those that are not significantly worse, by paired t-tests over texts."""
    best = best_of({cell: float(of_cell.mean()) for cell, of_cell in values.items()})
    tests = {cell: paired_t(list(of_cell - values[best])).p for cell, of_cell in values.items() if cell != best}
    corrected = holm({cell: p for cell, p in tests.items() if p == p})
    return {cell for cell in values if corrected.get(cell, 1.0) >= ALPHA}


def _lost(coverage: Coverage, evaluation: EvaluationPlan, cell: Cell, views: Sequence[str]) -> tuple[str, ...]:
    """The bands that a cell loses in one of the views. The tests are not corrected, which finds more losses."""
    column, retrievers = evaluation.columns[cell], len(evaluation.layout.retrievers)
    lost = []
    for band, name in enumerate(BAND_NAMES):
        for view in map(evaluation.views.index, views):
            found = coverage.found_in_band(view, band)[:, 0]
            single = int(np.argmax(found[-retrievers:]))
            behind = found[column] < found[len(found) - retrievers + single]
            p = float(sign_change_p(coverage.band_moves[view, band, single, 0, :, column]))
            if coverage.band_pairs[view, band] >= FEWEST_PAIRS and behind and p < ALPHA and name not in lost:
                lost.append(name)
    return tuple(lost)
