"""The judged texts that choices are made on, fold by fold, and the cells that were tried on them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fusion.cells import ANY_FOLD, Cell
from fusion.errors import InputError
from fusion.statistics.tally import Tally
from fusion.tuning.search import Objective
from fusion.types import Ints
from jobs.evaluation.evaluate import tallies_of
from jobs.inputs.bad_rows import bad_rows
from jobs.inputs.engines import Engine
from jobs.inputs.lists import ListRows, load_lists
from jobs.inputs.plans import Plan
from jobs.inputs.roles import ROLE, read_roles, runs_with_validation
from jobs.inputs.sources import Sources, source_name
from jobs.inputs.tables import Tables
from jobs.runtime.log import log
from jobs.settings.base import EvaluateSettings
from jobs.settings.sections import TuneSettings
from jobs.storage.workspace import TEST, VALIDATION
from udfs.counter import count_hits
from udfs.lists import is_judgement
from udfs.plan import EvaluationPlan, Propensities
from udfs.problems import Problems
from udfs.tuning import Parting, TrainTexts, judged_places, keep_first, prepared

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

    def collected(self, engine: Engine, bases: tuple[int, ...], most: int) -> pa.Table:
        """The list rows of some folds (or parts) in this process: those of the first texts, `most` in all."""
        each = max(1, most // len(bases))
        last = {base: int(self.places[base][:each][-1]) for base in bases if len(self.places[base])}
        return engine.collected(self.lists, keep_first(self.parting, last))


def load_validation(
    engine: Engine, sources: Sources, evaluate: EvaluateSettings, tune: TuneSettings, nonrelevant: bool
) -> Validation:
    """Validation texts where the input tells them; otherwise all judged texts, for cross-fitting."""
    kind = _kind(engine.tables, sources)
    role = VALIDATION if kind == "roles" else TEST
    lists = load_lists(engine.tables, sources, True, evaluate.relevant_from, nonrelevant, role)
    parting = Parting(tune.seed, tune.parts if kind == "parts" else 0)
    base, place = judged_places(engine.collected(lists, _judgements), parting)
    places = {int(fold): np.sort(place[base == fold]) for fold in np.unique(base)}
    if not places or (kind != "roles" and len(places) < 2):
        raise InputError(f"{lists.judgements_source}: too few judged texts to choose a fusion on some of them")
    serving: dict[int, tuple[int, ...]] = {fold: (fold,) for fold in places}
    if kind != "roles":
        serving = {fold: tuple(other for other in places if other != fold) for fold in places}
    found = Validation(kind, lists, parting, serving, places)
    log(found.words)
    return found


def _judgements(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pa.array(is_judgement(rows["list"].to_numpy())))


def _kind(tables: Tables[Any], sources: Sources) -> Kind:
    if runs_with_validation(tables, sources):
        return "roles"
    if sources.folds is None:
        return "parts"
    roles = read_roles(tables, sources.folds)
    if len(tables.distinct(roles, "fold")) < 2 and ROLE not in tables.columns(roles):
        return "parts"
    told = ROLE in tables.columns(roles) and not tables.is_empty(tables.equal(roles, ROLE, VALIDATION))
    given = sources.candidates
    runs = given.values() if isinstance(given, Mapping) else [given]
    # Runs that name folds hold the lists of test texts; others serve every fold.
    anywhere = not any("fold" in tables.columns(tables.read_run(run, source_name(run, "run"))) for run in runs)
    return "roles" if told and anywhere else "folds"


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
