"""Which rows of the inputs belong to test texts, and which to validation texts.

A run says it by a column `role`, and a table of folds for runs that have none. Where there are no folds, the roles
that runs name hold for the judgements, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic

from fusion.errors import InputError
from jobs.engines.engine import Rows
from jobs.inputs.sources import source_name
from jobs.inputs.tables import InputTable, InputTables
from jobs.storage.workspace import TEST, TRAIN, VALIDATION

ROLE = "role"
SHOWN = 5
ROLES = (TEST, VALIDATION, TRAIN)


def check_roles(roles: Iterable[str | None], source: str) -> None:
    """Refuse roles that do not exist: the rows of a text that is `Test` would be those of no text."""
    unknown = sorted(repr(role) for role in roles if role not in ROLES)
    if unknown:
        raise InputError(f"{source}: column {ROLE!r} holds {', '.join(unknown[:SHOWN])}; known: {', '.join(ROLES)}")


@dataclass(frozen=True)
class Folds(Generic[Rows]):
    """The table of folds, and which folds have texts of each role. Without a column `role`, all texts are tested."""

    table: InputTable[Rows]
    by_role: Mapping[str, frozenset[int]]

    @property
    def has_roles(self) -> bool:
        return ROLE in self.table.kinds

    def with_role(self, role: str) -> frozenset[int]:
        """The folds that have texts with a role; there must be some."""
        name = self.table.name
        if not self.has_roles and role != TEST:
            raise InputError(f"{name}: the column 'role', which marks the {role} texts, is missing")
        if not self.by_role.get(role):
            raise InputError(f"{name} names no {role} texts")
        return self.by_role[role]

    @property
    def all(self) -> frozenset[int]:
        return frozenset().union(*self.by_role.values())


def read_folds(tables: InputTables[Rows]) -> Folds[Rows] | None:
    """The folds, if there are any."""
    source = tables.sources.folds
    if source is None:
        return None
    name = source_name(source, "folds")
    table = tables.table(source, name, lambda kinds: ["fold", "text_id", *([ROLE] if ROLE in kinds else [])])
    counted = tables.engine.count(table.rows, [column for column in ("fold", ROLE) if column in table.kinds])
    folds = counted["fold"].to_pylist()
    roles = counted[ROLE].to_pylist() if ROLE in table.kinds else [TEST] * len(folds)
    check_roles(set(roles), name)
    strange = sorted({str(fold) for fold in folds if fold is None or not 0 <= fold < 2**31})
    if strange:
        raise InputError(f"{name}: column 'fold' holds {', '.join(strange[:SHOWN])}; folds are numbers from 0 on")
    pairs = set(zip(roles, folds, strict=True))
    return Folds(table, {role: frozenset(fold for of, fold in pairs if of == role) for role in ROLES})


def tested_folds(tables: InputTables[Rows]) -> frozenset[int]:
    """The folds that have test texts; none where there are no folds."""
    folds = read_folds(tables)
    return frozenset() if folds is None else folds.with_role(TEST)


def runs_with_validation(tables: InputTables[Rows]) -> bool:
    """Whether the runs bring lists of validation texts."""
    return any(
        VALIDATION in tables.engine.count(table.rows, [ROLE])[ROLE].to_pylist()
        for table in run_tables(tables)
        if ROLE in table.kinds
    )


def run_tables(tables: InputTables[Rows]) -> list[InputTable[Rows]]:
    """The tables that candidates come in."""
    given = tables.sources.candidates
    runs = given.items() if isinstance(given, Mapping) else [("", given)]
    return [tables.run(run, source_name(run, f"run {name!r}" if name else "candidates")) for name, run in runs]
