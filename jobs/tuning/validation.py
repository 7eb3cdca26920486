"""The judged texts that choices are made on, fold by fold, and the cells that were tried on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from fusion.cells import ANY_FOLD, Cell
from fusion.errors import InputError
from fusion.metrics import Metric
from fusion.statistics.tally import Tally
from fusion.tuning.search import Objective
from fusion.types import Ints
from jobs.evaluation.evaluate import tallies_of
from jobs.evaluation.plan import count
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.roles import read_folds, run_tables, runs_with_validation
from jobs.inputs.tables import InputTables
from jobs.runtime.log import log
from jobs.settings.base import EvaluateSettings
from jobs.settings.sections import TuneSettings
from jobs.storage.workspace import TEST, VALIDATION
from udfs.counter import count_hits
from udfs.evidence import Training
from udfs.plan import EvaluationPlan, Propensities
from udfs.texts import rows_schema
from udfs.tuning import PLACES_SCHEMA, Parting, TrainTexts, first_rows, judged_places, prepared

Kind = Literal["roles", "folds", "parts"]
WORDS: dict[Kind, str] = {
    "roles": "choices are made on the validation texts of each fold",
    "folds": "no validation texts: the choice for each fold is made on the test texts of the others (cross-fitting)",
    "parts": "no validation texts and no folds: the texts are divided into {parts} parts by a hash of their ids, and "
    "the choice for each part is made on the others (cross-fitting)",
}


@dataclass(frozen=True)
class Validation:
    """Judged texts with their lists, and which of them serve which fold."""

    kind: Kind
    lists: ListRows[Any]
    parting: Parting
    """How texts that choices are made on come into folds, or into parts that stand for these."""
    serving: Mapping[int, tuple[int, ...]]
    """By fold that is tested, the folds (or parts) of the texts that its choices are made on."""
    places: Mapping[int, Ints]
    """The places of the judged texts of each fold (or part), ascending."""

    @property
    def test_parting(self) -> Parting | None:
        """What makes folds of the test texts; None: they have folds."""
        return self.parting if self.kind == "parts" else None

    @property
    def served(self) -> dict[int, tuple[int, ...]]:
        """The same, and for the choice over all folds."""
        return {**self.serving, ANY_FOLD: tuple(self.places)}

    @property
    def words(self) -> str:
        return WORDS[self.kind].format(parts=self.parting.parts)

    def texts(self, fold: int) -> int:
        """The number of texts that the choices for a fold are made on."""
        return sum(len(self.places[base]) for base in self.serving[fold])

    def collected(self, bases: tuple[int, ...], most: int) -> ListRows[Any]:
        """The lists of some folds (or parts) in this process: those of the first texts, `most` in all."""
        each = max(1, most // len(bases))
        last = {base: int(self.places[base][:each][-1]) for base in bases if len(self.places[base])}
        lists, (text, label, _) = self.lists, self.lists.types
        ranking = Training(lists.layout, ())
        work = first_rows(self.parting, last, lists.layout.of_read, text, label)
        rows = lists.through(ranking, work, rows_schema(text, label), adds_up=False)
        return ListRows.of_read(lists.engine.collect(rows), lists)


def load_validation(
    tables: InputTables[Any], evaluate: EvaluateSettings, tune: TuneSettings, metrics: Sequence[Metric] = ()
) -> Validation:
    """Validation texts where the input tells them; otherwise all judged texts, for cross-fitting."""
    kind = _kind(tables)
    role = VALIDATION if kind == "roles" else TEST
    lists = load_lists(tables, True, evaluate.relevant_from, metrics, role)
    parting = Parting(tune.seed, tune.parts if kind == "parts" else 0)
    work = judged_places(parting)
    found = tables.engine.collect(lists.through(Training(lists.layout, ()), work, PLACES_SCHEMA))
    base, place = found["base"].to_numpy(), found["place"].to_numpy()
    places = {int(fold): np.sort(place[base == fold]) for fold in np.unique(base)}
    if not places or (kind != "roles" and len(places) < 2):
        raise InputError(f"{lists.judgements_source}: too few judged texts to choose a fusion on some of them")
    serving: dict[int, tuple[int, ...]] = {fold: (fold,) for fold in places}
    if kind != "roles":
        serving = {fold: tuple(other for other in places if other != fold) for fold in places}
    validation = Validation(kind, lists, parting, serving, places)
    log(validation.words)
    return validation


def _kind(tables: InputTables[Any]) -> Kind:
    if runs_with_validation(tables):
        return "roles"
    folds = read_folds(tables)
    if folds is None or (len(folds.all) < 2 and not folds.has_roles):
        return "parts"
    # Runs that name folds hold the lists of test texts; others serve every fold.
    anywhere = not any("fold" in table.kinds for table in run_tables(tables))
    return "roles" if folds.by_role[VALIDATION] and anywhere else "folds"


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


def count_cells(
    lists: ListRows[Any],
    evaluation: EvaluationPlan,
    parting: Parting | None,
    train_texts: TrainTexts | None,
) -> dict[int, Tally]:
    """One pass over lists: the counts of all cells by fold, or by what the parting makes of it."""
    if parting is not None and evaluation.propensities is not None:
        evaluation = replace(evaluation, propensities=_coded(evaluation.propensities, parting))
    work = prepared(count_hits(evaluation), parting, train_texts)
    return tallies_of(count(lists, evaluation, work), evaluation)


def best_in(values: Mapping[Cell, float], family: Iterable[Cell]) -> Cell:
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
