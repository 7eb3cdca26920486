"""Cells that were tried on validation texts, and what they are worth on any part of these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.grid import Cell
from fusion.statistics.tally import Tally
from fusion.tuning.objective import Objective
from jobs.evaluate import tallies_of
from jobs.inputs.bad_rows import bad_rows
from jobs.inputs.list_rows import ListRows
from jobs.runtime.engines import Engine, Plan
from udfs.evaluation_plan import EvaluationPlan
from udfs.hit_counts import count_hits
from udfs.judged_texts import Propensities
from udfs.problems import Problems
from udfs.tuning import Parting, TrainTexts, prepared


@dataclass(frozen=True)
class Texts:
    """Some of the texts: of some folds (or parts), of one half or both, and of the first classes."""

    bases: tuple[int, ...]
    half: int | None = None
    last_class: int | None = None

    def hold(self, base: int, half: int, number: int) -> bool:
        within = self.last_class is None or number <= self.last_class
        return base in self.bases and self.half in (None, half) and within


@dataclass
class Tried:
    """The counts of cells over validation texts, by fold, half and class."""

    objective: Objective
    parting: Parting
    passes: list[tuple[EvaluationPlan, dict[int, Tally]]] = field(default_factory=list)

    def values(self, texts: Texts, views: Sequence[str]) -> dict[Cell, float]:
        """The objective of every cell, as the mean over some views."""
        values: dict[Cell, float] = {}
        for evaluation, total in self._totals(texts):
            of_views = [self.objective.values(total, evaluation.views.index(view)) for view in views]
            means = np.mean(of_views, axis=0)
            values.update({cell: float(means[column]) for cell, column in evaluation.grid.column_of.items()})
        return values

    def texts(self, texts: Texts, view: str) -> int:
        """How many of the texts count in a view."""
        evaluation, total = next(self._totals(texts))
        return int(total.queries[evaluation.views.index(view), 0].sum())

    def _totals(self, texts: Texts) -> Iterator[tuple[EvaluationPlan, Tally]]:
        for evaluation, tallies in self.passes:
            total = evaluation.new_tally()
            for code, tally in tallies.items():
                if texts.hold(*self.parting.decoded(code)):
                    total.counts += tally.counts
            yield evaluation, total


def count(
    engine: Engine,
    lists: ListRows[Any],
    evaluation: EvaluationPlan,
    parting: Parting | None,
    train_texts: TrainTexts | None,
) -> dict[int, Tally]:
    """One pass over lists: the counts of all cells by fold, or by what the parting makes of it."""
    if parting is not None and evaluation.propensities is not None:
        evaluation = replace(evaluation, propensities=_coded(evaluation.propensities, parting))
    work = prepared(count_hits(evaluation), parting, train_texts)
    packed: pa.Table = engine.counts(lists, Plan(evaluation.grid, evaluation.scope, evaluation.views), work)
    problems = Problems.from_json(text for text in packed["problems"].to_pylist() if text)
    if problems:
        raise bad_rows(problems)
    return tallies_of(packed, evaluation)


def best_of(values: Mapping[Cell, float], family: Iterable[Cell]) -> Cell:
    """The cell of the greatest value; of equal ones, the first of the family."""
    return max(family, key=lambda cell: values[cell])


def _coded(propensities: Propensities, parting: Parting) -> Propensities:
    """The propensities of the folds, under the codes that the parting gives their texts."""
    if propensities.folds[0] == Propensities.ANY_FOLD or parting.limits is None:
        return propensities
    codes = sorted(
        parting.code(int(fold), half, number)
        for fold in propensities.folds
        for half in (0, 1)
        for number in range(parting.classes)
    )
    row = [int(np.searchsorted(propensities.folds, parting.decoded(code)[0])) for code in codes]
    return Propensities(np.array(codes), propensities.ids, propensities.inverse[row])
