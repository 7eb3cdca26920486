"""How frequent labels are among the training texts of each fold, for metrics that weigh labels by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fusion.errors import ConfigError, InputError
from fusion.propensity import inverse_propensities
from fusion.registry import METRICS, TextMetric
from fusion.types import Ints
from jobs.inputs.roles import read_roles
from jobs.inputs.sources import Sources, source_format, source_name
from jobs.inputs.tables import Frequencies, T, Tables
from jobs.settings import EvaluateSettings
from udfs.judged_texts import Propensities
from udfs.list_codes import LabelIndex
from udfs.tuning import TrainTexts

FEWEST_TEXTS = 3
"""The propensity model has a meaning from e texts on."""


class Training(NamedTuple):
    """The training texts of a fold: their number, and the labels they carry."""

    texts: int
    frequencies: Frequencies


def training_propensities(tables: Tables[T], sources: Sources, settings: EvaluateSettings) -> Propensities | None:
    """The inverse propensities of all labels in every fold; None where no metric asks for them."""
    entries = [METRICS[measure.metric] for measure in settings.measures]
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
    return TrainTexts(np.array(sorted(training)), ids, counts.astype(np.int32))


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
