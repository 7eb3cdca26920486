"""What the inputs say about labels: their groups, how many texts carry them, and their names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError
from fusion.labels import HEAD, TAIL, inverse_propensities, pareto_groups
from fusion.metrics import Metric
from fusion.registry import METRICS
from fusion.statistics.watchers import FEWEST_WORDS
from fusion.types import Ints
from jobs.engines.engine import Rows
from jobs.inputs.roles import ROLE, read_folds
from jobs.inputs.sources import checked_label_groups, source_name, widest
from jobs.inputs.tables import InputTable, InputTables
from jobs.settings.base import EvaluateSettings
from jobs.storage.workspace import TEST, TRAIN, VALIDATION
from udfs.columns import Among, Band, Column, Columns, Constant, Place, Single, Taken
from udfs.judged import judgement_digests
from udfs.label_counts import ANY_ROLE, ROLES, added_counts, label_texts
from udfs.lists import JUDGEMENT, LabelGroups, LabelIndex, number_labels
from udfs.plan import Propensities
from udfs.tuning import TrainTexts

FEWEST_TEXTS = 3
"""The propensity model has a meaning from e texts on."""
EXCERPT = 300
"""Characters of a text that are shown."""
ID_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}
SCORE_TYPES = {"float": pa.float32(), "double": pa.float64()}


class RowTypes(NamedTuple):
    """The types that list rows have in common."""

    text: pa.DataType
    label: pa.DataType
    score: pa.DataType

    def columns(self, text_id: Any, fold: Any, code: Any, labels: Any, scores: Any) -> Columns:
        """The columns of list rows."""
        return {
            "text_id": Column(text_id, self.text),
            "fold": Column(fold, pa.int32()),
            "list": Column(code, pa.int32()),
            "label_ids": Column(labels, pa.list_(self.label)),
            "scores": Column(scores, pa.list_(self.score)),
        }

    @classmethod
    def of(cls, tables: Sequence[InputTable[Any]]) -> RowTypes:
        """The narrowest types that hold the ids and scores of some tables."""
        every = [table.kinds for table in tables]
        text = widest([kinds["text_id"] for kinds in every])
        label = widest([kinds["label_ids" if "label_ids" in kinds else "label_id"] for kinds in every])
        scores = [kinds[name] for kinds in every for name in ("scores", "score") if name in kinds]
        score = widest(scores) if scores else "double"
        return cls(ID_TYPES[text], ID_TYPES[label], SCORE_TYPES[score])


def judgement_rows(judgements: InputTable[Any], types: RowTypes, fold: Any, graded: bool) -> Columns:
    """Judgements as list rows; with `graded`, grades are the scores. The code says how many words the text has."""
    lists = "label_ids" in judgements.kinds
    labels = Taken("label_ids") if lists else Single("label_id")
    scores: Any = (Taken("grades") if lists else Single("grade")) if graded else Constant(None)
    words = "words" in judgements.kinds
    code: Any = Band("words", FEWEST_WORDS, JUDGEMENT) if words else Constant(JUDGEMENT)
    return types.columns(Taken("text_id"), fold, code, labels, scores)


def has_grades(judgements: InputTable[Any]) -> bool:
    """Whether there is a column of grades."""
    return "grades" in judgements.kinds or "grade" in judgements.kinds


class Frequencies(NamedTuple):
    """How many texts carry each label, in the order of the ids."""

    ids: pa.Array
    counts: Ints


class LabelTexts:
    """How many judged texts carry each label, of all texts and by fold and role."""

    def __init__(self, counted: pa.Table) -> None:
        self._counted = counted.combine_chunks()

    def of(self, fold: int | None = None, role: str | None = None) -> pa.Table:
        """Labels with the number of their texts; the label null says how many texts there are."""
        counted = self._counted
        wanted = ANY_ROLE if role is None else ROLES.index(role)
        inside = pc.equal(counted["role"], wanted)
        if fold is not None:
            inside = pc.and_(inside, pc.equal(counted["fold"], fold))
        return counted.filter(inside).select(["label_id", "texts"])

    def folds(self, role: str) -> list[int]:
        """The folds with texts of a role."""
        return sorted(
            self._counted.filter(pc.equal(self._counted["role"], ROLES.index(role)))["fold"].unique().to_pylist()
        )

    @property
    def frequencies(self) -> Frequencies:
        """Of all texts."""
        return ordered(self.of())


def ordered(counted: pa.Table) -> Frequencies:
    """Labels in the order of their ids."""
    labels = counted.filter(counted["label_id"].is_valid()).combine_chunks()
    ids, counts = labels["label_id"].combine_chunks(), labels["texts"].combine_chunks()
    order = pa.array(np.argsort(number_labels(ids)[0]))
    return Frequencies(ids.take(order), counts.take(order).to_numpy())


def label_texts_of(
    tables: InputTables[Rows], judgements: InputTable[Rows], relevant_from: float, roles: Sequence[str] = ()
) -> LabelTexts:
    """Judged texts counted by label and, for some roles, by the folds in which they have them. Judgements with a fold
    of their own are those of training texts."""
    engine, folds = tables.engine, read_folds(tables) if roles else None
    involved = [judgements.kinds["text_id"], *([folds.table.kinds["text_id"]] if folds else [])]
    types = RowTypes.of([judgements])._replace(text=ID_TYPES[widest(involved)], score=pa.float64())
    own = Taken("fold") if "fold" in judgements.kinds else Constant(None)
    graded = has_grades(judgements)
    rows = [engine.select(judgements.rows, judgement_rows(judgements, types, own, graded))]
    if folds is not None:
        code: Any = Place(ROLE, ROLES, 0) if folds.has_roles else Constant(ROLES.index(TEST))
        named = types.columns(Taken("text_id"), Taken("fold"), code, Constant(None), Constant(None))
        where = [Among(ROLE, roles)] if folds.has_roles else []
        rows.append(engine.select(folds.table.rows, named, where))
    counted = engine.group(
        engine.union(*rows), ["text_id"], label_texts(types.label, relevant_from if graded else None)
    )
    return LabelTexts(engine.collect(engine.group(counted, ["label_id"], added_counts(types.label))))


def unseen_labels(tables: InputTables[Rows], relevant_from: float) -> dict[int, pa.Array] | None:
    """By fold, the labels of its test texts that only its test and validation texts carry; None where the inputs do not
    name training texts. Training texts are the many, so the others are counted: a label that they carry as often as
    all texts do has no training text."""
    folds, judgements = read_folds(tables), tables.judgements
    if folds is None or judgements is None or not folds.by_role[TRAIN]:
        return None
    counted = label_texts_of(tables, judgements, relevant_from, (TEST, VALIDATION))
    unseen = {}
    every = LabelIndexed(counted.of())
    for fold in counted.folds(TEST):
        tested, validated = (LabelIndexed(counted.of(fold, role)) for role in (TEST, VALIDATION))
        ids = tested.ids
        unseen[fold] = ids.filter(pa.array(tested.texts(ids) + validated.texts(ids) == every.texts(ids)))
    return {fold: ids for fold, ids in unseen.items() if len(ids)}


def judged_texts(tables: InputTables[Rows], relevant_from: float) -> Rows:
    """How each text was judged, as a digest, and the number of its relevant labels."""
    judgements = tables.judgements
    assert judgements is not None
    types, graded = RowTypes.of([judgements]), has_grades(judgements)
    columns = judgement_rows(judgements, types._replace(score=pa.float64()), Constant(None), graded)
    rows = tables.engine.select(judgements.rows, columns)
    return tables.engine.group(rows, ["text_id"], judgement_digests(relevant_from if graded else None))


class LabelIndexed:
    """The number of texts of each label."""

    def __init__(self, counted: pa.Table) -> None:
        labels = counted.filter(counted["label_id"].is_valid()).combine_chunks()
        self.ids: pa.Array = labels["label_id"].combine_chunks()
        self._texts = np.append(labels["texts"].to_numpy(), 0)

    def texts(self, ids: pa.Array) -> Ints:
        return np.asarray(self._texts[pc.fill_null(pc.index_in(ids, value_set=self.ids), -1).to_numpy()])


class Training(NamedTuple):
    """The training texts of a fold: their number, and the labels they carry."""

    texts: int
    frequencies: Frequencies


def training_propensities(
    tables: InputTables[Rows], settings: EvaluateSettings, metrics: Iterable[Metric]
) -> Propensities | None:
    """The inverse propensities of all labels in every fold; None where no metric asks for them."""
    asking = [metric.name for metric in metrics if METRICS[metric.name].gain == "propensity"]
    if not asking:
        return None
    training = _training(tables, settings.relevant_from)
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


def training_texts(tables: InputTables[Rows], relevant_from: float) -> TrainTexts | None:
    """How many training texts of each fold carry each label; None where that is not known. Nothing but texts with the
    role train, or those that `inputs.training` names, is counted: any other text may be one that is tested."""
    training = _training(tables, relevant_from)
    if not training:
        return None
    ids, counts = _by_label(training)
    texts = sum(of_fold.texts for of_fold in training.values()) / len(training)
    return TrainTexts(np.array(sorted(training)), ids, counts.astype(np.int32), texts)


def _by_label(training: Mapping[int, Training]) -> tuple[pa.Array, Ints]:
    """The labels of all folds, and how many texts of each fold carry each of them; the last entry is 0."""
    ids = pa.concat_arrays([of_fold.frequencies.ids for of_fold in training.values()]).unique()
    index = LabelIndex(ids)
    counts = np.zeros((len(training), len(ids) + 1), np.int64)
    for row, (_, of_fold) in zip(counts, sorted(training.items()), strict=True):
        row[index.places(of_fold.frequencies.ids)] = of_fold.frequencies.counts
    return ids, counts


def _training(tables: InputTables[Rows], relevant_from: float) -> dict[int, Training]:
    """The training texts by fold; without folds of their own they are those of ANY_FOLD."""
    source, judgements = tables.sources.training, tables.judgements
    if source is not None:
        given = tables.judged(source, source_name(source, "training texts"), with_fold=True)
        counted = label_texts_of(tables, given, relevant_from)
        if "fold" not in given.kinds:
            return {Propensities.ANY_FOLD: _of_fold(counted.of())}
    else:
        folds = read_folds(tables)
        if folds is None or judgements is None or not folds.by_role[TRAIN] or not folds.has_roles:
            return {}
        counted = label_texts_of(tables, judgements, relevant_from, (TRAIN,))
    return {fold: _of_fold(counted.of(fold, TRAIN)) for fold in counted.folds(TRAIN)}


def _of_fold(counted: pa.Table) -> Training:
    texts = counted.filter(counted["label_id"].is_null())["texts"].to_pylist()
    return Training(sum(texts), ordered(counted))


def label_groups(tables: InputTables[Rows], frequencies: Frequencies | None, grouped: bool) -> LabelGroups | None:
    """The groups of labels: those of a table, or by the Pareto rule; None where labels have none. `grouped`: whether
    candidates name groups."""
    sources = tables.sources
    wanted = sources.groups_word
    if wanted == "auto":
        wanted = "pareto" if grouped and frequencies is not None else "none"
    if wanted == "none":
        return None
    if wanted == "pareto":
        if frequencies is None:
            raise ConfigError("label groups by the Pareto rule need judgements: set inputs.judgements")
        ids, counts = frequencies
        group_of = pareto_groups(number_labels(ids)[0], counts, sources.head_share)
        # A label without judgements is rarer than any other.
        judged_by = source_name(sources.judgements, "the judgements")
        return _coded(ids, group_of, (TAIL, HEAD), TAIL, f"the groups of {judged_by}")
    source = source_name(sources.label_groups, "label groups")
    table = tables.table(sources.label_groups, source, lambda kinds: ["label_id", "label_group"])
    labels = checked_label_groups(tables.engine.collect(table.rows), source)
    group_of = np.array(labels["label_group"].to_pylist(), dtype=object)
    return _coded(labels["label_id"].combine_chunks(), group_of, group_order(group_of), None, source)


def _coded(
    ids: pa.Array, group_of: np.ndarray, names: tuple[str, ...], unknown: str | None, source: str
) -> LabelGroups:
    codes = np.array([names.index(group) for group in group_of], np.int8)
    return LabelGroups(names, ids, codes, -1 if unknown is None else names.index(unknown), source)


def group_order(groups: Iterable[str | None]) -> tuple[str, ...]:
    """Tail, head, then other groups by name."""
    return tuple(sorted({str(group) for group in groups}, key=lambda name: (name != TAIL, name != HEAD, name)))


def label_names(tables: InputTables[Rows], label_ids: Sequence[str]) -> dict[str, str]:
    """The names of some labels: a prepared dataset's label table has a column `name`."""
    if tables.sources.groups_word is not None:
        return {}
    return tables.words(tables.sources.label_groups, "label groups", "label_id", "name", label_ids)


def text_excerpts(tables: InputTables[Rows], text_ids: Sequence[str]) -> dict[str, str]:
    """The beginnings of some texts: a prepared dataset's samples have a column `text`."""
    if tables.sources.judgements is None:
        return {}
    texts = tables.words(tables.sources.judgements, "judgements", "text_id", "text", text_ids)
    return {text_id: " ".join(text[: 4 * EXCERPT].split())[:EXCERPT] for text_id, text in texts.items()}
