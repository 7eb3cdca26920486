"""Learned fusions: trained on validation texts, their options chosen on halves of these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fusion.cells import Cell
from fusion.errors import InputError
from fusion.labels import ALL
from fusion.models.bands import BandRows
from fusion.models.models import Model
from fusion.models.strategies import BANDS, ISOTONIC, LAMBDAMART, LOG_ODDS, LOGISTIC, PLATT, Strategy
from fusion.tuning.band_learner import Judged, train_bands
from fusion.tuning.learners import train_lambdamart, train_logistic
from fusion.tuning.pooling_learner import CURVES, FUSED_BY, train_calibrated, train_log_odds
from fusion.tuning.search import Objective
from jobs.inputs.lists import ListRows
from jobs.settings.sections import TuneSettings
from jobs.tuning.validation import Texts, Tried, count_cells
from udfs.plan import EvaluationPlan
from udfs.tuning import BANDS as READS_BANDS
from udfs.tuning import (
    FEATURES,
    FeatureRows,
    Parting,
    Reading,
    TrainTexts,
    feature_rows,
    half_of,
    half_within,
    joined_rows,
)

USUAL_K = 10
"""How many first labels count where no metric of the objective has a cut-off."""
Train = Callable[[FeatureRows, Sequence[str], Sequence[Any]], Iterator[Model]]
"""From rows, the names of their features and options to one model per option."""


def first_labels(objective: Objective) -> int:
    """How many first labels of a text count in it, at most."""
    return max((metric.deepest for metric in objective.metrics if metric.deepest), default=USUAL_K)


class Kind(NamedTuple):
    """A way to learn, with the options of which the best is found on held-out texts."""

    cell: Cell
    options: tuple[Any, ...]
    train: Train
    reading: Reading = FEATURES
    needs_training: bool = False
    """Whether it must know how many training texts carry each label."""

    @property
    def usual(self) -> int:
        """The option where nothing can be held out."""
        return len(self.options) // 2


def kinds_of(
    strategies: Sequence[Cell], settings: TuneSettings, retrievers: Sequence[str] = (), training_texts: float = 0.0
) -> list[Kind]:
    """The learned ones among strategies. `training_texts`: how many a fold has."""
    k = first_labels(settings.goal)

    def logistic(rows: FeatureRows, features: Sequence[str], options: Sequence[Any]) -> Iterator[Model]:
        return train_logistic(rows.matrix, rows.relevant, features, options)

    def lambdamart(rows: FeatureRows, features: Sequence[str], options: Sequence[Any]) -> Iterator[Model]:
        return train_lambdamart(rows.matrix, rows.relevant, rows.candidates, features, options, settings.seed)

    def bands(rows: FeatureRows, features: Sequence[str], options: Sequence[Any]) -> Iterator[Model]:
        for k in options:
            yield train_bands(judged_rows(rows, retrievers), half_within(rows.place), retrievers, k)

    def calibrated(curve: str) -> Train:
        def train(rows: FeatureRows, features: Sequence[str], options: Sequence[Any]) -> Iterator[Model]:
            for fusion in options:
                yield train_calibrated(judged_rows(rows, retrievers), retrievers, curve, fusion)

        return train

    def log_odds(rows: FeatureRows, features: Sequence[str], options: Sequence[Any]) -> Iterator[Model]:
        for curve in options:
            yield train_log_odds(judged_rows(rows, retrievers), retrievers, curve, training_texts)

    known = [
        # From the strongest penalty to the weakest, so that every model is near the one before.
        Kind(LOGISTIC, tuple(sorted(settings.l2, reverse=True)), logistic),
        Kind(LAMBDAMART, tuple(settings.trees), lambdamart),
        Kind(BANDS, (k,), bands, reading=READS_BANDS, needs_training=True),
        Kind(PLATT, FUSED_BY, calibrated("platt"), reading=READS_BANDS),
        Kind(ISOTONIC, FUSED_BY, calibrated("isotonic"), reading=READS_BANDS),
        Kind(LOG_ODDS, tuple(CURVES), log_odds, reading=READS_BANDS, needs_training=True),
    ]
    return [kind for kind in known if kind.cell in strategies]


def judged_rows(rows: FeatureRows, retrievers: Sequence[str]) -> Judged:
    """Rows read for frequency bands, as their learner takes them."""
    offset = np.append(0, np.cumsum(rows.candidates))
    return Judged(BandRows.of(rows.matrix, retrievers), rows.relevant, offset, rows.labels)


def variant(strategy: Cell, number: int) -> Cell:
    """A strategy with another option, or other texts to learn from, as a cell of its own."""
    return Cell(strategy.normalization, f"{strategy.fusion} {number}")


class Learned(NamedTuple):
    """What was learned for a fold and a set of views, and how each option did on texts it had not learned from."""

    model: Model
    option: int
    held_out: tuple[float, ...] | None
    """The objective by option; None where nothing could be held out."""
    halves: tuple[Mapping[int, Model], ...] = ()
    """By option, what was learned from the other half, by the codes of the texts that it was held out from."""


@dataclass(frozen=True)
class Learner:
    """Learns from the list rows of judged texts."""

    evaluation: EvaluationPlan
    """How models are evaluated: layout, views, scope, the metrics of the objective; no cells."""
    objective: Objective
    together: Mapping[str, tuple[str, ...]]
    """The sets of views that share a model, by name."""
    train_texts: TrainTexts | None
    parting: Parting
    kinds: Sequence[Kind]

    @property
    def readings(self) -> list[Reading]:
        """What the kinds read."""
        return list(dict.fromkeys(kind.reading for kind in self.kinds))

    def rows(self, lists: pa.Table, reading: Reading = FEATURES) -> dict[str, FeatureRows]:
        """The rows of every set of views. Views that share a model also share their texts; those of all labels repeat
        the rows of the groups, and are left out."""
        of = (self.evaluation.layout, self.evaluation.views, self.train_texts, self.parting)
        found = feature_rows(lists, *of, reading)
        made = {}
        for name, views in self.together.items():
            own = [view for view in views if view != ALL] or list(views)
            made[name] = joined_rows([found[view] for view in own])
            if not made[name].relevant.any():
                raise InputError(f"no validation text has a relevant candidate ({name}): nothing can be learned")
        return made

    def learn(self, lists: ListRows[Any], bases: tuple[int, ...]) -> dict[tuple[Cell, str], Learned]:
        """The models of every kind and set of views, from list rows of some folds (or parts)."""
        table = lists.collect()
        rows = {reading: self.rows(table, reading) for reading in self.readings}
        held_out = self._held_out(lists, bases, rows)
        learned = {}
        for kind in self.kinds:
            for name, of_views in rows[kind.reading].items():
                values, halves = held_out.get((kind.cell, name), (None, ()))
                option = kind.usual if values is None else best_option(values)
                learned[kind.cell, name] = Learned(self.trained(kind, of_views, option), option, values, halves)
        return learned

    def trained(self, kind: Kind, rows: FeatureRows, option: int) -> Model:
        return next(kind.train(rows, self._columns(kind), kind.options[option : option + 1]))

    def _columns(self, kind: Kind) -> tuple[str, ...]:
        return kind.reading.columns(self.evaluation.layout.retrievers, self.train_texts is not None)

    def _held_out(
        self, lists: ListRows[Any], bases: tuple[int, ...], rows: Mapping[Reading, Mapping[str, FeatureRows]]
    ) -> dict[tuple[Cell, str], tuple[tuple[float, ...], tuple[Mapping[int, Model], ...]]]:
        """How models do on the half of the texts that they have not learned from, by option, and these models."""
        halves = self.parting.halves
        strategies: dict[Cell, Strategy] = {}
        asked: dict[tuple[Cell, str], list[Cell]] = {}
        tested: dict[tuple[Cell, str], tuple[Mapping[int, Model], ...]] = {}
        for kind in self.kinds:
            models: list[dict[str, dict[int, Model]]] = [{} for _ in kind.options]
            for name, of_views in rows[kind.reading].items():
                parts = [of_views.of_texts(half_of(of_views.place) != half) for half in (0, 1)]
                if not all(part.relevant.any() for part in parts):
                    continue
                asked[kind.cell, name] = [
                    Cell(kind.cell.normalization, f"{kind.cell.fusion} {o}") for o in range(len(kind.options))
                ]
                for half, part in enumerate(parts):
                    for of_option, model in zip(
                        models, kind.train(part, self._columns(kind), kind.options), strict=True
                    ):
                        for view in self.together[name]:
                            of_option.setdefault(view, {}).update({halves.code(b, half, 0): model for b in bases})
                tested[kind.cell, name] = tuple(of_option[self.together[name][0]] for of_option in models)
            for o, of_option in enumerate(models):
                if set(of_option) == set(self.evaluation.views):
                    strategies[variant(kind.cell, o)] = Strategy(of_option)
        evaluation = replace(self.evaluation, strategies=strategies)
        tried = Tried(self.objective, halves)
        tried.passes.append((evaluation, count_cells(lists, evaluation, halves, self.train_texts)))
        found = {}
        for (kind_cell, name), cells in asked.items():
            values = tried.values(Texts(bases), self.together[name])
            if all(cell in values for cell in cells):
                found[kind_cell, name] = tuple(values[cell] for cell in cells), tested[kind_cell, name]
        return found


def best_option(values: Sequence[float]) -> int:
    """The number of the greatest value; of equal ones, the first."""
    return max(range(len(values)), key=lambda option: values[option])
