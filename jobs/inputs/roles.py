"""Which rows of the inputs belong to test texts, and which to validation texts.

A run tells it by a column `role`, and a table of folds for runs that have none. Where there are no folds, the roles
that runs tell hold for the judgements, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fusion.errors import InputError
from jobs.inputs.sources import Source, Sources, require, source_name
from jobs.inputs.tables import T, Tables
from jobs.storage.workspace import TEST, TRAIN, VALIDATION

ROLE = "role"
SHOWN = 5
ROLES = (TEST, VALIDATION, TRAIN)


def check_roles(roles: Iterable[str | None], source: str) -> None:
    """Refuse roles that do not exist: the rows of a text that is `Test` would be those of no text."""
    unknown = sorted(repr(role) for role in roles if role not in ROLES)
    if unknown:
        raise InputError(f"{source}: column {ROLE!r} holds {', '.join(unknown[:SHOWN])}; known: {', '.join(ROLES)}")


def of_role(tables: Tables[T], run: T, role: str, source: str) -> T:
    """The rows of a run that belong to texts with a role, without the column that says so. A row that names no role
    belongs to a test text; in a run without the column, every row counts."""
    columns = tables.columns(run)
    if ROLE not in columns:
        return run
    require(columns, source, [ROLE])
    check_roles((name for name in tables.distinct(run, ROLE) if name is not None), source)
    return tables.without(tables.equal(run, ROLE, role, nulls=role == TEST), ROLE)


def tell_roles(tables: Tables[T], runs: Sequence[T]) -> bool:
    """Whether a run says which of its texts are validation texts."""
    return any(ROLE in tables.columns(run) and not tables.is_empty(tables.equal(run, ROLE, VALIDATION)) for run in runs)


def texts_of_role(tables: Tables[T], table: T, runs: Sequence[T], role: str) -> T:
    """The rows of a table that names no roles, judgements or a run, whose texts have a role by what runs say. A text
    that only has validation rows is no test text; one without a row anywhere is."""
    telling = [run for run in runs if ROLE in tables.columns(run)]
    validation = [tables.equal(run, ROLE, VALIDATION) for run in telling]
    if role == VALIDATION:
        return tables.with_texts(table, validation, among=True)
    test = [tables.equal(run, ROLE, TEST, nulls=True) for run in telling]
    apart = [tables.with_texts(run, test, among=False) for run in validation]
    return tables.with_texts(table, apart, among=False)


def read_roles(tables: Tables[T], source: Source) -> T:
    """The folds with what each text is to them, if the table says so."""
    name = source_name(source, "folds")
    table = tables.read(source, name)
    columns = tables.columns(table)
    require(columns, name, ["fold", "text_id", *([ROLE] if ROLE in columns else [])])
    if ROLE in columns:
        check_roles(tables.distinct(table, ROLE), name)
    return table


def fold_texts(tables: Tables[T], roles: T, role: str, name: str) -> T:
    """The texts with some role, with their folds."""
    table = roles
    if ROLE in tables.columns(roles):
        table = tables.equal(roles, ROLE, role)
    elif role != TEST:
        raise InputError(f"{name}: the column 'role', which marks the {role} texts, is missing")
    if tables.is_empty(table):
        raise InputError(f"{name} names no {role} texts")
    if tables.has_nulls(roles, "text_id"):
        raise InputError(f"{name}: column 'text_id' holds nulls")
    strange = [str(n) for n in tables.distinct(roles, "fold") if n is None or not 0 <= n < 2**31]
    if strange:
        raise InputError(f"{name}: column 'fold' holds {', '.join(strange[:5])}; folds are numbers from 0 on")
    twice = tables.first_repeated(table, ["fold", "text_id"])
    if twice is not None:
        raise InputError(f"{name}: text {twice['text_id']!r} is a {role} text of fold {twice['fold']} more than once")
    return table


def folds_with(tables: Tables[T], sources: Sources, role: str) -> set[int]:
    """The folds that have texts with some role; none where there are no folds."""
    if sources.folds is None:
        return set()
    texts = fold_texts(tables, read_roles(tables, sources.folds), role, source_name(sources.folds, "folds"))
    return {int(str(fold)) for fold in tables.distinct(texts, "fold")}


def runs_with_validation(tables: Tables[T], sources: Sources) -> bool:
    """Whether the runs bring lists of validation texts."""
    given = sources.candidates
    runs = given.values() if isinstance(given, Mapping) else [given]
    return tell_roles(tables, [tables.read_run(run, source_name(run, "candidates")) for run in runs])
