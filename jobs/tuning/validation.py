"""The judged texts that choices are made on, fold by fold: never those that the choice is applied to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from fusion.errors import InputError
from fusion.learning import ANY_FOLD
from fusion.types import Ints
from jobs.datasets.roles import TEST, VALIDATION
from jobs.inputs.list_rows import ListRows, load_lists
from jobs.inputs.roles import ROLE, read_roles, runs_with_validation
from jobs.inputs.sources import Sources, source_name
from jobs.inputs.tables import Tables
from jobs.runtime.engines import Engine
from jobs.runtime.log import log
from jobs.settings import EvaluateSettings
from jobs.settings.tune import TuneSettings
from udfs.list_codes import is_judgement
from udfs.tuning import Parting, judged_places, keep_first

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
