"""The inputs of an evaluation as rows: one row per list, with the texts, folds, roles and names that belong to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple

import numpy as np
import pyarrow as pa

from fusion.errors import ConfigError, InputError, unknown_name
from fusion.labels import ALL, HEAD, TAIL, inverse_propensities, pareto_groups
from fusion.registry import METRICS, TextMetric
from fusion.types import Ints
from jobs.inputs.local import ABOVE_ZERO
from jobs.inputs.roles import ROLE, fold_texts, of_role, read_roles, tell_roles, texts_of_role
from jobs.inputs.sources import Source, Sources, checked_label_groups, require, source_format, source_name, widest
from jobs.inputs.tables import Frequencies, Placed, RowTypes, T, Tables
from jobs.runtime.log import log
from jobs.settings.base import EvaluateSettings
from jobs.storage.workspace import TEST, TRAIN, check_lineage
from udfs.lists import LabelGroups, LabelIndex, Layout, forms_warning, in_two_forms, number_labels
from udfs.plan import Propensities
from udfs.tuning import TrainTexts

SHOWN_FORMS = 3


@dataclass(frozen=True)
class Run(Generic[T]):
    """The candidates of a retriever, where they came from, and the label groups they name, if they name any."""

    rows: T
    source: str
    groups: frozenset[str | None] | None


@dataclass
class ListRows(Generic[T]):
    """Rows (text_id, fold, list, label_ids, scores), with the meaning of the list codes."""

    rows: T
    layout: Layout
    types: RowTypes
    judgements_source: str
    frequencies: Callable[[], Frequencies]
    """How many texts carry each label, by the judgements."""
    of_texts: Callable[[Sequence[str]], T]
    """The rows of some texts, by their ids as strings; the others are left out before anything is shuffled."""
    unseen_labels: Callable[[], dict[int, pa.Array] | None]
    """By fold, the labels of its test texts that none of its training texts carries; None where the inputs do not name
    training texts."""


def load_lists(
    tables: Tables[T],
    sources: Sources,
    judged: bool,
    relevant_from: float = 1,
    nonrelevant: bool = False,
    role: str = TEST,
    count_labels: bool = False,
) -> ListRows[T]:
    """The candidates of all retrievers for the texts with some role and, if `judged`, the labels of these texts.

    Labels come with their grades where there are any but 0 and 1, or if also those below the grade `relevant_from` are
    wanted (`nonrelevant`). With `count_labels` their frequencies are counted meanwhile.
    """
    sources.require(judged)
    check_lineage(sources.paths())
    judged_by = source_name(sources.judgements, "judgements")
    judgements, graded = None, None
    if sources.judgements is not None:
        judgements, graded = _judgements(tables, sources.judgements, judged_by, relevant_from, judged, nonrelevant)
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(tables.frequencies, judgements) if count_labels and judgements is not None else None

        def frequencies() -> Frequencies:
            assert judgements is not None
            return tables.frequencies(judgements) if counting is None else counting.result()

        runs, told_roles = _runs(tables, sources, role)
        types = _types(tables, [run.rows for run in runs.values()], judgements)
        layout = _layout(tables, sources, runs, None if judgements is None else frequencies)
    if types.label == "string" and role == TEST:
        _warn_of_forms(tables, runs.values(), judgements, judged_by)
    layout = layout if graded is None else replace(layout, relevant_from=relevant_from)
    roles = read_roles(tables, sources.folds) if sources.folds is not None else None
    folds = fold_texts(tables, roles, role, source_name(sources.folds, "folds")) if roles is not None else None
    divided = layout.slots != (ALL,)
    only_told = folds is None and tell_roles(tables, told_roles)

    def rows_of(texts: Sequence[str] | None) -> T:
        def placed(table: T) -> T:
            some = table if texts is None else tables.having(table, "text_id", texts)
            return tables.in_fold(texts_of_role(tables, some, told_roles, role) if only_told else some, folds)

        rows = []
        for number, (name, run) in enumerate(runs.items()):
            first_code = number * len(layout.slots)
            place = Placed(first_code, layout.slots, layout.groups, divided, name in sources.distances)
            rows.append(tables.list_rows(placed(run.rows), place, types))
        if judgements is not None and judged:
            rows.append(tables.judgement_rows(placed(judgements if graded is None else graded), types))
        return tables.union(rows)

    def unseen_labels() -> dict[int, pa.Array] | None:
        if roles is None or judgements is None or ROLE not in tables.columns(roles):
            return None
        if tables.is_empty(tables.equal(roles, ROLE, TRAIN)):
            return None
        return tables.unseen_labels(judgements, roles)

    return ListRows(rows_of(None), layout, types, judged_by, frequencies, rows_of, unseen_labels)


def _judgements(
    tables: Tables[T], source: Source, name: str, relevant_from: float, judged: bool, nonrelevant: bool
) -> tuple[T, T | None]:
    """The relevant labels of texts, and labels with their grades where figures need these."""
    read = tables.read_judgements(source, name)
    graded = None
    wanted = judged and "grades" in tables.columns(read)
    if wanted and (nonrelevant or relevant_from > 1 or tables.has_grades(read)):
        graded = read if nonrelevant else tables.graded_from(read, ABOVE_ZERO)
    return tables.relevant_only(read, relevant_from), graded


def _runs(tables: Tables[T], sources: Sources, role: str) -> tuple[dict[str, Run[T]], list[T]]:
    """The candidates of each retriever for the texts with some role, and the tables as they are that tell roles."""
    candidates = sources.candidates
    if isinstance(candidates, Mapping):
        named = {retriever: source_name(source, f"run {retriever!r}") for retriever, source in candidates.items()}
        read = {retriever: tables.read_run(source, named[retriever]) for retriever, source in candidates.items()}
        runs = {retriever: _grouped(tables, rows, role, named[retriever]) for retriever, rows in read.items()}
        whole = list(read.values())
    else:
        source = source_name(candidates, "candidates")
        table = tables.read_run(candidates, source)
        require(tables.columns(table), source, ["retriever"])
        whole = [table]
        together = _grouped(tables, table, role, source)
        retrievers = tables.distinct(together.rows, "retriever")
        if None in retrievers:
            raise InputError(f"{source}: column 'retriever' holds nulls")
        runs = {
            retriever: replace(together, rows=tables.equal(together.rows, "retriever", retriever))
            for retriever in sorted(map(str, retrievers))
        }
    if len(runs) < 2:
        given = f"only {', '.join(runs)}" if runs else "none"
        raise ConfigError(f"fusion needs two retrievers or more; found {given}. Give --run NAME=PATH for each")
    for name in sorted(sources.distances - runs.keys()):
        raise unknown_name("retriever (in inputs.higher_is_better)", name, runs)
    return runs, [table for table in whole if ROLE in tables.columns(table)]


def _grouped(tables: Tables[T], run: T, role: str, source: str) -> Run[T]:
    """The part of a run for the texts with some role, with the label groups it names. Fused lists of all labels (`all`)
    beside those of the groups repeat the same labels and are left out; where there are no others, they are lists
    without groups."""
    candidates = of_role(tables, run, role, source)
    of_texts = f" of {role} texts (column 'role')" if ROLE in tables.columns(run) else ""
    groups = _groups_in(tables, candidates, f"{source} holds no candidates{of_texts}")
    if groups is None or ALL not in groups:
        return Run(candidates, source, groups)
    if groups == {ALL}:
        return Run(tables.without(candidates, "label_group"), source, None)
    return Run(tables.unequal(candidates, "label_group", ALL), source, groups - {ALL})


def _groups_in(tables: Tables[T], candidates: T, complaint: str) -> frozenset[str | None] | None:
    """The label groups that candidates name, None if they name none; complains if there are no candidates."""
    if "label_group" in tables.columns(candidates):
        groups = frozenset(tables.distinct(candidates, "label_group"))
        empty = not groups
    else:
        groups, empty = None, tables.is_empty(candidates)
    if empty:
        raise InputError(complaint)
    return groups


def _warn_of_forms(tables: Tables[T], runs: Iterable[Run[T]], judgements: T | None, judged_by: str) -> None:
    """Warn of labels in several Unicode forms. Where no judged label has an accent, figures cannot depend on it, and
    the candidates, which are many, are not looked through."""
    source_of = {} if judgements is None else dict.fromkeys(tables.accented_labels(judgements), judged_by)
    if judgements is None or source_of:
        for run in runs:
            source_of = {**dict.fromkeys(tables.accented_labels(run.rows), run.source), **source_of}
    for same in in_two_forms(source_of)[:SHOWN_FORMS]:
        log(forms_warning(same, source_of))


def _types(tables: Tables[T], runs: list[T], judgements: T | None) -> RowTypes:
    """The narrowest types that hold the ids and scores of all inputs."""
    columns = [tables.columns(table) for table in runs]
    everything = [*columns, *([tables.columns(judgements)] if judgements is not None else [])]
    label = widest([kinds["label_ids" if "label_ids" in kinds else "label_id"] for kinds in everything])
    score = widest([kinds["scores" if "scores" in kinds else "score"] for kinds in columns])
    return RowTypes(widest([kinds["text_id"] for kinds in everything]), label, score)


def _layout(
    tables: Tables[T], sources: Sources, runs: Mapping[str, Run[T]], frequencies: Callable[[], Frequencies] | None
) -> Layout:
    """The retrievers, and the slots that their lists come in. Without judgements, there are no frequencies."""
    grouped = any(run.groups is not None for run in runs.values())
    groups = _label_groups(tables, sources, frequencies, grouped)
    slots = groups.names if groups else (ALL,)
    if grouped and sources.groups_word == "auto" and frequencies is None:
        slots = _group_order(group for run in runs.values() for group in run.groups or ())
    if slots != (ALL,):
        for run in runs.values():
            unknown = sorted(str(group) for group in (run.groups or frozenset()) - set(slots))
            if unknown:
                names = f"{', '.join(map(repr, unknown))}; known: {', '.join(slots)}"
                raise InputError(f"{run.source}: column 'label_group' holds {names}")
            if run.groups is None and groups is None:
                raise ConfigError("some candidates have a label_group and others do not: set inputs.label_groups")
    judged_by = source_name(sources.judgements or "", "judgements")
    return Layout(tuple(runs), slots, groups, tuple(run.source for run in runs.values()), judged_by)


def _label_groups(
    tables: Tables[T], sources: Sources, frequencies: Callable[[], Frequencies] | None, grouped: bool
) -> LabelGroups | None:
    wanted = sources.groups_word
    if wanted == "auto":
        wanted = "pareto" if grouped and frequencies is not None else "none"
    if wanted == "none":
        return None
    if wanted == "pareto":
        if frequencies is None:
            raise ConfigError("label groups by the Pareto rule need judgements: set inputs.judgements")
        ids, counts = frequencies()
        group_of = pareto_groups(number_labels(ids)[0], counts, sources.head_share)
        # A label without judgements is rarer than any other.
        judged_by = source_name(sources.judgements, "the judgements")
        return _coded(ids, group_of, (TAIL, HEAD), TAIL, f"the groups of {judged_by}")
    source = source_name(sources.label_groups, "label groups")
    table = tables.read(sources.label_groups, source)
    require(tables.columns(table), source, ["label_id", "label_group"])
    labels = checked_label_groups(tables.arrow(table, ["label_id", "label_group"]), source)
    group_of = np.array(labels["label_group"].to_pylist(), dtype=object)
    return _coded(labels["label_id"].combine_chunks(), group_of, _group_order(group_of), None, source)


def _coded(
    ids: pa.Array, group_of: np.ndarray, names: tuple[str, ...], unknown: str | None, source: str
) -> LabelGroups:
    codes = np.array([names.index(group) for group in group_of], np.int8)
    return LabelGroups(names, ids, codes, -1 if unknown is None else names.index(unknown), source)


def _group_order(groups: Iterable[str | None]) -> tuple[str, ...]:
    """Tail, head, then other groups by name."""
    return tuple(sorted({str(group) for group in groups}, key=lambda name: (name != TAIL, name != HEAD, name)))


FEWEST_TEXTS = 3
"""The propensity model has a meaning from e texts on."""


class Training(NamedTuple):
    """The training texts of a fold: their number, and the labels they carry."""

    texts: int
    frequencies: Frequencies


def training_propensities(tables: Tables[T], sources: Sources, settings: EvaluateSettings) -> Propensities | None:
    """The inverse propensities of all labels in every fold; None where no metric asks for them."""
    entries = [METRICS[measure.name] for measure in settings.parsed_metrics]
    asking = [entry.name for entry in entries if isinstance(entry, TextMetric) and entry.gain == "propensity"]
    if not asking:
        return None
    training = dict(_training(tables, sources, settings.relevant_from))
    if not training:
        raise ConfigError(
            f"{asking[0]} weighs labels by how many training texts carry them, and that is not known: set "
            "inputs.training to the labels of the training texts, or give folds (inputs.folds) with a column 'role' "
            "in which the training texts are called 'train' and that are among the judgements"
        )
    ids, counts = _by_label(training)
    inverse = []
    for (fold, of_fold), of_labels in zip(sorted(training.items()), counts, strict=True):
        if of_fold.texts < FEWEST_TEXTS:
            raise InputError(f"fold {fold} has {of_fold.texts} training texts; propensities need {FEWEST_TEXTS}")
        inverse.append(inverse_propensities(of_labels, of_fold.texts, *settings.propensity_constants))
    return Propensities(np.array(sorted(training)), ids, np.stack(inverse))


def training_texts(tables: Tables[T], sources: Sources, relevant_from: float) -> TrainTexts | None:
    """How many training texts of each fold carry each label; None where that is not known. Nothing but texts with the
    role train, or those that `inputs.training` names, is counted: any other text may be one that is tested."""
    training = dict(_training(tables, sources, relevant_from))
    if not training:
        return None
    ids, counts = _by_label(training)
    texts = sum(of_fold.texts for of_fold in training.values()) / len(training)
    return TrainTexts(np.array(sorted(training)), ids, counts.astype(np.int32), texts)


def _by_label(training: Mapping[int, Training]) -> tuple[pa.Array, Ints]:
    """The labels of all folds, and how many texts of each fold carry each of them; the last entry is 0."""
    kinds = {of_fold.frequencies.ids.type for of_fold in training.values()}
    kind = kinds.pop() if len(kinds) == 1 else pa.string()
    ids = pa.concat_arrays([of_fold.frequencies.ids.cast(kind) for of_fold in training.values()]).unique()
    index = LabelIndex(ids)
    counts = np.zeros((len(training), len(ids) + 1), np.int64)
    for row, (_, of_fold) in zip(counts, sorted(training.items()), strict=True):
        row[index.places(of_fold.frequencies.ids.cast(kind))] = of_fold.frequencies.counts
    return ids, counts


def _training(tables: Tables[T], sources: Sources, relevant_from: float) -> Iterator[tuple[int, Training]]:
    """The training texts by fold; without folds of their own they are those of ANY_FOLD."""
    if sources.training is not None:
        name = source_name(sources.training, "training texts")
        trec = isinstance(sources.training, str) and source_format(sources.training)[0] == "trec"
        table = sources.training if trec else tables.read(sources.training, name)
        if trec or "fold" not in tables.columns(table):
            yield Propensities.ANY_FOLD, _counted(tables, tables.read_judgements(table, name), relevant_from)
            return
        for fold in tables.distinct(table, "fold"):
            of_fold = tables.read_judgements(tables.equal(table, "fold", fold), name)
            yield int(fold), _counted(tables, of_fold, relevant_from)
    elif sources.folds is not None:
        table = read_roles(tables, sources.folds)
        if "role" not in tables.columns(table):
            return
        judgements = tables.read_judgements(sources.judgements, source_name(sources.judgements, "judgements"))
        train = tables.equal(table, "role", "train")
        for fold in tables.distinct(train, "fold"):
            of_fold = tables.in_fold(judgements, tables.equal(train, "fold", fold))
            yield int(fold), _counted(tables, of_fold, relevant_from)


def _counted(tables: Tables[T], judgements: T, relevant_from: float) -> Training:
    relevant = tables.relevant_only(judgements, relevant_from)
    return Training(tables.size(relevant), tables.frequencies(relevant))


EXCERPT = 300
"""Characters of a text that are shown."""


def label_names(tables: Tables[T], sources: Sources, label_ids: Sequence[str]) -> dict[str, str]:
    """The names of some labels: a prepared dataset's label table has a column `name`."""
    if sources.groups_word is not None:
        return {}
    return _words(tables, sources.label_groups, "label groups", "label_id", "name", label_ids)


def text_excerpts(tables: Tables[T], sources: Sources, text_ids: Sequence[str]) -> dict[str, str]:
    """The beginnings of some texts: a prepared dataset's samples have a column `text`."""
    if sources.judgements is None:
        return {}
    texts = _words(tables, sources.judgements, "judgements", "text_id", "text", text_ids)
    return {text_id: " ".join(text[: 4 * EXCERPT].split())[:EXCERPT] for text_id, text in texts.items()}


def _words(tables: Tables[T], source: Source, name: str, key: str, value: str, ids: Sequence[str]) -> dict[str, str]:
    """The values of some ids; nothing where the table has no such column."""
    if isinstance(source, str) and source_format(source)[0] == "trec":
        return {}
    table = tables.read(source, source_name(source, name))
    kinds = tables.columns(table)
    if kinds.get(value) != "string" or key not in kinds or not ids:
        return {}
    rows = tables.arrow(tables.having(table, key, ids), [key, value])
    pairs = zip(rows[key].to_pylist(), rows[value].to_pylist(), strict=True)
    return {str(number): word for number, word in pairs if word is not None}
