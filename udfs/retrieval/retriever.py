"""What a retriever is, and the steps that are the same for all: encode texts, fit folds, rank labels."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from fusion.errors import XmtcError
from fusion.retrieval.neighbours import Aggregation, Neighbours
from fusion.retrieval.ranked import Ranked
from fusion.types import Array
from udfs.lists import list_rows, lists_schema
from udfs.retrieval.folds import FoldSource, read_rows
from udfs.steps import Batches, Step, one_part
from udfs.stores.cache import readable_folder


class Encoding(Protocol):
    """What is done with each text once, for all folds and for every retriever that reads it."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that it makes."""

    def __call__(self, texts: list[str]) -> pa.RecordBatch:
        """These columns, one row per text."""


class Model(Protocol):
    """What a retriever has learned from a fold, opened from its folder."""

    def rank(self, rows: pa.RecordBatch) -> Ranked:
        """The ranked labels of encoded texts: list number text * len(groups) + group."""


@runtime_checkable
class ComparesTexts(Protocol):
    """A model that may find labels by the training texts that a text resembles."""

    def neighbours(self, row: pa.RecordBatch) -> Neighbours | None:
        """These texts, for one encoded text; None where labels are found in another way."""


class Retriever(Protocol):
    """A retriever as workers get it: settings, and the addresses of encoded tables. It must be picklable."""

    @property
    def name(self) -> str: ...
    @property
    def groups(self) -> tuple[str, ...]: ...
    @property
    def encoding(self) -> Encoding: ...
    @property
    def in_threads(self) -> bool:
        """Whether threads of one process can fit several folds, as compiled code can."""

    def fit(self, source: FoldSource, models: str) -> Any:
        """Learn from the training texts of a fold, and write the model to its folder in `models`; a report for JSON.

        The folder holds all that ranking needs. Validation texts may decide when to stop.
        """

    def open(self, place: Path) -> Model:
        """The model in a folder that `fit` has written."""


@dataclass(frozen=True)
class Scoring:
    """How many training texts a text is compared with, and what becomes of their scores."""

    neighbours: int
    aggregation: Aggregation
    top: int


@dataclass(frozen=True)
class Plain:
    """Texts as they are."""

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([("text", pa.string())])

    def __call__(self, texts: list[str]) -> pa.RecordBatch:
        return pa.record_batch([pa.array(texts, pa.string())], schema=self.schema)


CHUNK = 1_024
"""Texts worked on in one call: enough to make the call cheap, few enough to need no memory."""
OPEN_MODELS = 16
"""Models that a process keeps open. Their large arrays are mapped, so that the processes of a machine share them."""


def fold_folder(models: str, fold: int) -> str:
    """Where the model of a fold is."""
    return f"{models}/fold={fold}"


def encode_rows(encoding: Encoding, ids: pa.DataType) -> Step:
    """From rows (id, text) to rows (id, the columns of the encoding)."""
    schema = pa.schema([pa.field("id", ids), *encoding.schema])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for begin in range(0, batch.num_rows, CHUNK):
                rows = batch.slice(begin, CHUNK)
                columns = encoding([text or "" for text in rows["text"].to_pylist()])
                yield pa.RecordBatch.from_arrays([rows["id"].cast(ids), *columns.columns], schema=schema)

    return Step(run, schema, in_python=True, heavy=True)


REPORTS = pa.schema([("fold", pa.int32()), ("report", pa.string()), ("problem", pa.string())])


def over_folds(prepared: str, work: Callable[[FoldSource], Any], in_threads: bool) -> Step:
    """From rows (fold) to the report of the work on each fold, or to the error that it ended with: were it raised,
    Spark would do hours of work again."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for fold in batch["fold"].to_pylist():
                report, problem = None, None
                try:
                    with one_part():
                        report = json.dumps(work(FoldSource(fold, prepared)))
                except XmtcError as error:
                    problem = json.dumps([type(error).__name__, str(error)])
                yield pa.RecordBatch.from_pylist([{"fold": fold, "report": report, "problem": problem}], REPORTS)

    return Step(run, REPORTS, in_python=not in_threads)


@dataclass(frozen=True)
class Models:
    """The models of a retriever for all folds, and the texts that are ranked with each."""

    retriever: Retriever
    folder: str
    fingerprint: str
    """That of the models: a process that has opened others opens again."""
    prepared: str


def rank_texts(models: Models, role: str, ids: pa.DataType, of_fold: int | None = None) -> Step:
    """From rows of encoded texts to the lists of those that have a role in a fold; in one fold only, if it is given."""
    retriever, schema = models.retriever, lists_schema(ids)

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for fold, rows in listed_texts(models.prepared, role, models.fingerprint).of(batch):
                if of_fold not in (None, fold):
                    continue
                for begin in range(0, rows.num_rows, CHUNK):
                    some = rows.slice(begin, CHUNK)
                    lists = open_model(models, fold).rank(some)
                    yield list_rows(fold, retriever.name, some["id"].cast(ids), retriever.groups, lists)

    return Step(run, schema, heavy=True)


@dataclass(frozen=True)
class ListedTexts:
    """The texts that have a role, in ascending order, and the fold of each."""

    ids: Array
    folds: Array

    def of(self, batch: pa.RecordBatch) -> Sequence[tuple[int, pa.RecordBatch]]:
        """The rows of a batch by the fold that lists them. Most texts are tested in one fold, and not all are listed
        for validation."""
        ids = batch["id"].to_numpy(zero_copy_only=False)
        first, last = (np.searchsorted(self.ids, ids, side) for side in ("left", "right"))
        row = np.repeat(np.arange(len(ids)), last - first)
        inside = np.arange(len(row)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        fold = self.folds[np.repeat(first, last - first) + inside]
        return [(int(number), batch.take(pa.array(row[fold == number]))) for number in np.unique(fold)]


def of_fold(prepared: str, fingerprint: str, fold: int, roles: Sequence[str], ids: pa.DataType) -> Step:
    """From rows (id, text) to those of the texts that have one of some roles in a fold."""
    schema = pa.schema([pa.field("id", ids), ("text", pa.string())])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            for role in roles:
                for number, rows in listed_texts(prepared, role, fingerprint).of(batch):
                    if number == fold:
                        yield rows.cast(schema)

    return Step(run, schema)


_opening = Lock()


def listed_texts(prepared: str, role: str, fingerprint: str) -> ListedTexts:
    """The texts with a role in the folds of a prepared dataset, read once per process."""
    with _opening:
        return _listed_texts(prepared, role, fingerprint)


@lru_cache(maxsize=4)
def _listed_texts(prepared: str, role: str, fingerprint: str) -> ListedTexts:
    rows = read_rows(f"{prepared}/folds.parquet", ["text_id", "fold"], ds.field("role") == role).sort_by(
        [("text_id", "ascending"), ("fold", "ascending")]
    )
    return ListedTexts(*(rows[name].combine_chunks().to_numpy(zero_copy_only=False) for name in ("text_id", "fold")))


def open_model(models: Models, fold: int) -> Model:
    """The model of a fold, opened once per process."""
    # Threads that come first at the same time would each open it.
    with _opening:
        return _open_model(models, fold)


@lru_cache(maxsize=OPEN_MODELS)
def _open_model(models: Models, fold: int) -> Model:
    place = readable_folder(fold_folder(models.folder, fold), models.fingerprint)
    return models.retriever.open(place)


def mapped(folder: Path, name: str) -> Array:
    """An array of a model, mapped and not read."""
    return np.asarray(np.load(folder / f"{name}.npy", mmap_mode="r"))
