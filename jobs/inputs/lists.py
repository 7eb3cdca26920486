"""The inputs of an evaluation as rows: one row per list, with the texts, folds, roles and names that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple

import numpy as np
import pyarrow as pa

from fusion.errors import ConfigError, InputError, unknown_name
from fusion.labels import ALL
from fusion.metrics import Metric
from fusion.registry import METRICS
from jobs.engines.engine import Engine, Rows
from jobs.engines.errors import step_errors
from jobs.engines.local import LocalEngine
from jobs.inputs.labels import (
    Frequencies,
    LabelTexts,
    RowTypes,
    group_order,
    has_grades,
    judgement_rows,
    label_groups,
    label_texts_of,
)
from jobs.inputs.roles import ROLE, Folds, check_roles, read_folds
from jobs.inputs.sources import require, source_name, typed_ids
from jobs.inputs.tables import InputTable, InputTables
from jobs.runtime.log import log
from jobs.storage.workspace import TEST, VALIDATION, check_lineage
from udfs.columns import Among, Column, Columns, Constant, Place, Single, Taken, Value
from udfs.label_counts import has_grades as graded_step
from udfs.lists import (
    IN_FOLD,
    JUDGEMENT,
    NOT_TESTED,
    InputForm,
    Layout,
    accented_labels,
    forms_warning,
    in_two_forms,
)
from udfs.plan import Ranking
from udfs.texts import Work, texts_step

SHOWN_FORMS = 3
WINDOWS = "windows"
FOLD = 0
"""The one fold, where there are no folds."""
ABOVE_ZERO = float(np.nextafter(0, 1))
"""The lowest grade that counts in a graded metric."""


@dataclass(frozen=True)
class Run(Generic[Rows]):
    """The candidates of a retriever: some rows of a table, and the label groups they name, if they name any."""

    table: InputTable[Rows]
    where: tuple[Among, ...]
    groups: frozenset[str | None] | None
    has_validation: bool
    """Whether the table has rows of validation texts."""


class Selection(NamedTuple):
    """Rows of a table as list rows."""

    table: InputTable[Any]
    columns: Columns
    where: tuple[Among, ...] = ()


@dataclass(frozen=True)
class ListRows(Generic[Rows]):
    """Rows (text_id, fold, list, label_ids, scores), with the meaning of the list codes."""

    engine: Engine[Rows]
    layout: Layout
    types: RowTypes
    rows_of: Callable[[Sequence[str] | None], Rows]
    """The rows of some texts, by their ids as strings, or all; the others are left out before anything is shuffled."""
    judgements_source: str = ""
    frequencies: Frequencies | None = None
    """How many texts carry each label, by the judgements; None unless it was counted."""

    @classmethod
    def of_read(cls, rows: pa.Table, lists: ListRows[Any]) -> ListRows[Any]:
        """List rows in this process that were read before."""
        engine = LocalEngine()
        return ListRows(engine, lists.layout.of_read, lists.types, lambda _: engine.read(rows))

    def collect(self) -> pa.Table:
        """All rows, in this process."""
        return self.engine.collect(self.rows_of(None))

    def through(self, ranking: Ranking, work: Work, schema: pa.Schema, adds_up: bool = True) -> Rows:
        """What some work makes of the texts, wherever the rows are. `ranking`: how lists are ranked, which the engine
        `windows` begins with in SQL."""
        engine: Any = self.engine
        rows: Any = self.rows_of(None)
        if engine.name == WINDOWS:
            from udfs.windows import over_windows

            with step_errors():
                return rows.transform(over_windows(self.layout, ranking, work, schema, engine.asked))
        return engine.group(rows, ["text_id"], texts_step(work, self.layout, schema, adds_up))


def load_lists(
    tables: InputTables[Rows],
    judged: bool,
    relevant_from: float = 1,
    metrics: Sequence[Metric] = (),
    role: str = TEST,
    count_labels: bool = False,
) -> ListRows[Rows]:
    """The candidates of all retrievers for the texts with some role and, if `judged`, the labels of these texts.

    Labels come with their grades where there are any but 0 and 1, or if `metrics` also look at those below the grade
    `relevant_from`. With `count_labels` their frequencies are counted.
    """
    sources, engine = tables.sources, tables.engine
    sources.require(judged)
    if not sources.in_memory:
        check_lineage(sources.paths())
    judgements = tables.judgements
    with ThreadPoolExecutor(1) as pool:
        # On Spark other small jobs run meanwhile.
        counting = _counting(pool, tables, relevant_from) if count_labels else None
        nonrelevant = any(METRICS[metric.name].nonrelevant for metric in metrics)
        graded, lowest = _grades(tables, judged, relevant_from, nonrelevant)
        runs = _runs(tables, role)
        folds = read_folds(tables)
        grouped = any(run.groups is not None for run in runs.values())
        if counting is None and (sources.groups_word == "pareto" or (sources.groups_word == "auto" and grouped)):
            counting = _counting(pool, tables, relevant_from)
        frequencies = None if counting is None else counting.result().frequencies
    if folds is not None:
        folds.with_role(role)
    types = RowTypes.of([*(run.table for run in runs.values()), *([] if judgements is None else [judgements])])
    layout = _layout(tables, runs, frequencies)
    if types.label == pa.string() and role == TEST:
        _warn_of_forms(tables, runs.values(), judgements)
    form = _form(tables, runs, folds, layout, role)
    layout = replace(layout, relevant_from=relevant_from if graded else None, form=replace(form, lowest=lowest))
    selections = _selections(runs, folds, layout, types)
    if judgements is not None and judged:
        fold = Constant(FOLD if folds is None else None)
        selections.append(Selection(judgements, judgement_rows(judgements, types, fold, lowest is not None)))

    def rows_of(texts: Sequence[str] | None) -> Rows:
        selected = []
        for table, columns, where in selections:
            of_texts = () if texts is None else (Among("text_id", typed_ids(table.kinds["text_id"], texts)),)
            selected.append(engine.select(table.rows, columns, (*of_texts, *where)))
        return engine.union(*selected)

    judged_by = source_name(sources.judgements, "judgements")
    return ListRows(engine, layout, types, rows_of, judged_by, frequencies)


def _counting(pool: ThreadPoolExecutor, tables: InputTables[Any], relevant_from: float) -> Future[LabelTexts] | None:
    judgements = tables.judgements
    return None if judgements is None else pool.submit(label_texts_of, tables, judgements, relevant_from)


def _form(
    tables: InputTables[Rows], runs: Mapping[str, Run[Rows]], folds: Folds[Rows] | None, layout: Layout, role: str
) -> InputForm:
    """How the rows of the inputs are to be read."""
    judgements, numbered = tables.judgements, list(enumerate(runs.values()))
    whole = layout.slots == (ALL,)
    # Lists by label group are pieces of a list of all labels where that is what is ranked.
    in_pieces = {number for number, run in numbered if run.table.fragments or (whole and run.groups is not None)}
    if judgements is not None and judgements.fragments:
        in_pieces.add(JUDGEMENT)
    naming = {number for number, run in numbered if ROLE in run.table.kinds}
    by_runs = folds is None and any(run.has_validation for run in runs.values())
    return InputForm(
        fragments=frozenset(in_pieces),
        undivided=not whole and any(run.groups is None for run in runs.values()),
        distances=frozenset(number for number, name in enumerate(runs) if name in tables.sources.distances),
        folds=source_name(tables.sources.folds, "folds"),
        role=role,
        naming_roles=frozenset(naming if by_runs else ()),
    )


def _selections(
    runs: Mapping[str, Run[Rows]], folds: Folds[Rows] | None, layout: Layout, types: RowTypes
) -> list[Selection]:
    """The rows of all runs, and those that say which texts are in which folds, or have which role."""
    selections = []
    for number, run in enumerate(runs.values()):
        kinds = run.table.kinds
        fold: Value = Constant(FOLD)
        if folds is not None:
            fold = Taken("fold") if "fold" in kinds else Constant(None)
        code: Value = Constant(number if layout.slots == (ALL,) else layout.whole + number)
        if layout.slots != (ALL,) and run.groups is not None:
            code = Place("label_group", layout.slots, number * len(layout.slots))
        selections.append(Selection(run.table, run_columns(run.table, types, fold, code), run.where))
        if number in layout.form.naming_roles and layout.form.role == TEST:
            mark = types.columns(
                Taken("text_id"), Constant(FOLD), Constant(layout.marks + NOT_TESTED), Constant(None), Constant(None)
            )
            selections.append(Selection(run.table, mark, (Among(ROLE, [VALIDATION]),)))
    if folds is not None:
        mark = types.columns(
            Taken("text_id"), Taken("fold"), Constant(layout.marks + IN_FOLD), Constant(None), Constant(None)
        )
        where = (Among(ROLE, [layout.form.role]),) if folds.has_roles else ()
        selections.append(Selection(folds.table, mark, where))
    return selections


def _grades(
    tables: InputTables[Any], judged: bool, relevant_from: float, nonrelevant: bool
) -> tuple[bool, float | None]:
    """Whether figures need the grades of judged labels, and the lowest grade that is read; None where there are no
    grades."""
    engine, judgements = tables.engine, tables.judgements
    if judgements is None or not has_grades(judgements):
        return False, None
    graded = judged and (nonrelevant or relevant_from > 1)
    if judged and not graded:
        lists = "grades" in judgements.kinds
        kind = engine.schema(judgements.rows).field("grades" if lists else "grade").type
        grades = Column(Taken("grades"), kind) if lists else Column(Single("grade"), pa.list_(kind))
        rows = engine.select(judgements.rows, {"grades": grades})
        graded = any(engine.collect(engine.map(rows, graded_step()))["graded"].to_pylist())
    if not graded:
        return False, relevant_from
    return True, -np.inf if nonrelevant else ABOVE_ZERO


def _runs(tables: InputTables[Rows], role: str, fewest: int = 2) -> dict[str, Run[Rows]]:
    """The candidates of each retriever for the texts with some role."""
    candidates, distances = tables.sources.candidates, tables.sources.distances
    if isinstance(candidates, Mapping):
        runs = {
            retriever: _run(tables, tables.run(source, source_name(source, f"run {retriever!r}")), role)[0]
            for retriever, source in candidates.items()
        }
    else:
        source = source_name(candidates, "candidates")
        table = tables.run(candidates, source)
        require(table.kinds, source, ["retriever"])
        together, retrievers = _run(tables, table, role)
        if None in retrievers:
            raise InputError(f"{source}: column 'retriever' holds nulls")
        runs = {
            name: replace(together, where=(*together.where, Among("retriever", [name])))
            for name in sorted(map(str, retrievers))
        }
    if len(runs) < fewest:
        given = f"only {', '.join(runs)}" if runs else "none"
        raise ConfigError(f"fusion needs two retrievers or more; found {given}. Give --run NAME=PATH for each")
    for name in sorted(distances - runs.keys()):
        raise unknown_name("retriever (in inputs.higher_is_better)", name, runs)
    return runs


def rows_of_runs(tables: InputTables[Rows]) -> dict[str, Rows]:
    """The candidates of each retriever for test texts as list rows, with nothing but their texts, labels and scores."""
    runs = _runs(tables, TEST, fewest=0)
    types = RowTypes.of([run.table for run in runs.values()])
    return {
        name: tables.engine.select(
            run.table.rows, run_columns(run.table, types, Constant(FOLD), Constant(0)), run.where
        )
        for name, run in runs.items()
    }


def run_columns(table: InputTable[Any], types: RowTypes, fold: Value, code: Value) -> Columns:
    """A run as list rows."""
    lists = "label_ids" in table.kinds
    labels, scores = (Taken("label_ids"), Taken("scores")) if lists else (Single("label_id"), Single("score"))
    return types.columns(Taken("text_id"), fold, code, labels, scores)


def _run(tables: InputTables[Rows], table: InputTable[Rows], role: str) -> tuple[Run[Rows], set[str | None]]:
    """The part of a table for the texts with some role, and the retrievers that it names. A row that names no role
    belongs to a test text. Fused lists of all labels (`all`) next to those of the groups repeat the same labels and are
    left out; where there are no others, they are lists without groups."""
    where: list[Among] = []
    columns = [name for name in ("retriever", "label_group", ROLE) if name in table.kinds]
    if not columns and table.is_text:
        return Run(table, (), None, False), set()
    counted = tables.engine.count(table.rows, columns, most=1).to_pylist()
    roles = {row[ROLE] for row in counted} if ROLE in columns else set()
    if ROLE in columns:
        check_roles(roles - {None}, table.name)
        where.append(Among(ROLE, [role], nulls=role == TEST))
        counted = [row for row in counted if (row[ROLE] or TEST) == role]
    if not sum(row["rows"] for row in counted):
        of_texts = f" of {role} texts (column 'role')" if ROLE in columns else ""
        raise InputError(f"{table.name} holds no candidates{of_texts}")
    groups = frozenset(row["label_group"] for row in counted) if "label_group" in columns else None
    if groups == frozenset([ALL]):
        groups = None
    elif groups is not None and ALL in groups:
        groups -= {ALL}
        where.append(Among("label_group", sorted(map(str, groups))))
    run = Run(table, tuple(where), groups, VALIDATION in roles)
    return run, {row.get("retriever") for row in counted}


def _warn_of_forms(tables: InputTables[Rows], runs: Iterable[Run[Rows]], judgements: InputTable[Rows] | None) -> None:
    """Warn of labels in several Unicode forms. Where no judged label has an accent, figures cannot depend on it, and
    the candidates, which are many, are not looked through."""
    engine, source_of = tables.engine, dict[str, str]()
    looked_through = [(run.table, run.where) for run in runs]
    for table, where in looked_through if judgements is None else [(judgements, ()), *looked_through]:
        lists = "label_ids" in table.kinds
        if "string" in table.kinds["label_ids" if lists else "label_id"]:
            labels = Column(Taken("label_ids") if lists else Single("label_id"), pa.list_(pa.string()))
            rows = engine.select(table.rows, {"label_ids": labels}, where)
            found = engine.collect(engine.map(rows, accented_labels()))["label_id"].unique().to_pylist()
            source_of = {**dict.fromkeys(found, table.name), **source_of}
        if table is judgements and not source_of:
            return
    for same in in_two_forms(source_of)[:SHOWN_FORMS]:
        log(forms_warning(same, source_of))


def _layout(tables: InputTables[Rows], runs: Mapping[str, Run[Rows]], frequencies: Frequencies | None) -> Layout:
    """The retrievers, and the slots that their lists come in. Without judgements, there are no frequencies."""
    grouped = any(run.groups is not None for run in runs.values())
    groups = label_groups(tables, frequencies, grouped)
    slots = groups.names if groups else (ALL,)
    if grouped and tables.sources.groups_word == "auto" and frequencies is None:
        slots = group_order(group for run in runs.values() for group in run.groups or ())
    if slots != (ALL,):
        for run in runs.values():
            unknown = sorted(str(group) for group in (run.groups or frozenset()) - set(slots))
            if unknown:
                names = f"{', '.join(map(repr, unknown))}; known: {', '.join(slots)}"
                raise InputError(f"{run.table.name}: column 'label_group' holds {names}")
            if run.groups is None and groups is None:
                raise ConfigError("some candidates have a label_group and others do not: set inputs.label_groups")
    judged_by = source_name(tables.sources.judgements or "", "judgements")
    return Layout(tuple(runs), slots, groups, tuple(run.table.name for run in runs.values()), judged_by)
