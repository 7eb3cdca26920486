"""Which strategy the model file holds: of those that are not significantly different from the best one, the best that
loses in no frequency band. Both are tested on validation texts that had no part in what was chosen or learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import Cell
from fusion.models.bands import BAND_NAMES
from fusion.models.models import Model
from fusion.models.strategies import Strategy
from fusion.statistics.coverage import FEWEST_PAIRS, Coverage
from fusion.statistics.significance import best_of, holm, paired_t, sign_change_p
from fusion.tuning.search import Objective
from fusion.types import Floats
from jobs.tuning.choosing import Choice
from jobs.tuning.learning import first_labels
from udfs.held_out import held_out_bands, held_out_figures
from udfs.plan import EvaluationPlan
from udfs.tuning import Parting, TrainTexts

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
