"""What tuning and learned fusions ask of batches of texts: other folds, training texts of labels, and features."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import ANY_FOLD, Cell
from fusion.errors import InputError
from fusion.kernel.pools import Pools
from fusion.kernel.texts import pool_views
from fusion.labels import ALL
from fusion.models.bands import band_columns, band_matrix
from fusion.models.features import feature_matrix, feature_names
from fusion.models.strategies import Strategy
from fusion.statistics.signs import blocks_of
from fusion.types import Array, Floats, Int32s, Ints
from udfs.counter import id_keys
from udfs.lists import LabelIndex, Layout
from udfs.problems import Problems
from udfs.steps import whole_keys
from udfs.texts import Batch, Work, list_rows, read_texts, rows_schema

ORDERED = 2**62
"""Texts are hashed into this many places; their order by place is as good as random."""
LARGEST_LABEL = 50_000_000
ROWS_AT_ONCE = 8_192


def places_of(text_id: pa.Array, seed: int) -> Ints:
    """A place for each text that depends on its id and the seed alone."""
    return blocks_of(blocks_of(id_keys(text_id), ORDERED) + seed, ORDERED)


def part_of(place: Ints, parts: int) -> Ints:
    """The part of each text, for cross-fitting."""
    return (place >> 20) % parts


def half_of(place: Ints) -> Ints:
    """0 or 1, which has nothing to do with the parts or the order."""
    return (place >> 10) & 1


def half_within(place: Ints) -> Ints:
    """0 or 1, which has nothing to do with those either: halves of a half."""
    return (place >> 11) & 1


@dataclass(frozen=True)
class Parting:
    """Which fold a text is counted in: its own, or a part of all texts by a hash of its id (`parts`); and then, where
    choices are to be made on some of the texts (`limits`), which half and class it belongs to."""

    seed: int
    parts: int = 0
    limits: Mapping[int, Sequence[int]] | None = None
    """By fold, ascending places: class c of a fold has the texts before limit c, and from limit c - 1 on."""

    def base(self, text_id: pa.Array, fold: Array) -> Array:
        """The fold, or the part that takes its place."""
        return part_of(places_of(text_id, self.seed), self.parts).astype(np.int32) if self.parts else fold

    def of(self, batch: Batch) -> Int32s:
        base = self.base(batch.text_id, batch.fold)
        if self.limits is None:
            return base.astype(np.int32)
        place = places_of(batch.text_id, self.seed)
        number = np.zeros(len(base), np.int64)
        for fold in np.unique(base):
            here = base == fold
            number[here] = np.searchsorted(self.limits.get(int(fold), ()), place[here], side="right")
        return ((base.astype(np.int64) * 2 + half_of(place)) * self.classes + number).astype(np.int32)

    @property
    def halves(self) -> Parting:
        """The same with halves and without classes."""
        return replace(self, limits={})

    @property
    def classes(self) -> int:
        return 1 + max(map(len, (self.limits or {}).values()), default=0)

    def code(self, fold: int, half: int, number: int) -> int:
        """One number for a fold, a half and a class."""
        return (fold * 2 + half) * self.classes + number

    def decoded(self, code: int) -> tuple[int, int, int]:
        """Fold, half and class."""
        rest, number = divmod(code, self.classes)
        return rest // 2, rest % 2, number


@dataclass(frozen=True)
class TrainTexts:
    """How many training texts of each fold carry each label."""

    folds: Ints
    """Ascending; ANY_FOLD alone stands for all."""
    ids: pa.Array
    counts: Int32s
    """[fold, label]; the last entry of a fold is that of a label without training texts."""
    texts: float
    """How many training texts a fold has, on average."""

    def attach(self, batch: Batch) -> None:
        """Give the texts of a batch the frequencies of their labels, each in its own fold."""
        labels = batch.texts.label
        largest = int(labels.max(initial=0))
        if largest > LARGEST_LABEL:
            raise InputError(f"label id {largest} is too large a number for learned fusions: give label ids as strings")
        place = self.index.places(batch.decode(np.arange(largest + 1, dtype=np.int32)))
        row = np.zeros(len(batch.fold), np.int64)
        if self.folds[0] != ANY_FOLD:
            row = np.searchsorted(self.folds, batch.fold)
            known = row < len(self.folds)
            if not (known.all() and (self.folds[row] == batch.fold).all()):
                raise InputError("learned fusions need the training texts of every fold; some are not known")
        batch.texts.train_texts = (np.ascontiguousarray(self.counts[:, place]), row)

    @cached_property
    def index(self) -> LabelIndex:
        return LabelIndex(self.ids)


@dataclass(frozen=True)
class Tuning:
    """What was tuned and learned, and what its cells need to be evaluated."""

    strategies: Mapping[Cell, Strategy]
    train_texts: TrainTexts | None = None
    parting: Parting | None = None
    """The parts of the texts that take the place of folds; None: the folds of the input."""


NOTHING_TUNED = Tuning({})


def prepared(work: Work, parting: Parting | None, train_texts: TrainTexts | None) -> Work:
    """The work on batches with training texts of labels, and with other folds."""
    if parting is None and train_texts is None:
        return work

    def changed(batch: Batch) -> Batch:
        if train_texts is not None:
            train_texts.attach(batch)
        if parting is None:
            return batch
        fold = parting.of(batch)
        batch.texts.fold = fold
        return replace(batch, fold=fold)

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        return work(map(changed, batches), problems)

    return run


PLACES_SCHEMA = pa.schema([("base", pa.int64()), ("place", pa.int64())])


def judged_places(parting: Parting) -> Work:
    """The fold (or part) and place of every judged text."""

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids = batch.text_id.filter(pa.array(batch.judged))
            base = parting.base(ids, batch.fold[batch.judged]).astype(np.int64)
            yield pa.RecordBatch.from_pydict({"base": base, "place": places_of(ids, parting.seed)}, PLACES_SCHEMA)

    return run


def first_rows(
    parting: Parting, last: Mapping[int, int], layout: Layout, text: pa.DataType, label: pa.DataType
) -> Work:
    """The list rows of the judged texts whose place is not behind the last one of their fold (or part)."""
    schema = rows_schema(text, label)

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            base = parting.base(batch.text_id, batch.fold)
            limit = np.array([last.get(int(fold), -1) for fold in base], np.int64)
            kept = np.flatnonzero(places_of(batch.text_id, parting.seed) <= limit)
            if len(kept):
                yield from list_rows(batch, layout, kept).select(schema.names).cast(schema).to_batches()

    return run


@dataclass(frozen=True)
class FeatureRows:
    """The candidates of judged texts: text after text by id, and labels ascending."""

    matrix: Floats
    relevant: Array
    candidates: Ints
    """The number of rows of each text."""
    place: Ints
    """Of each text."""
    base: Ints
    """The fold of each text, or the part that takes its place."""
    labels: Ints
    """The number of relevant labels of each text, also of those that no list holds."""

    def of_texts(self, chosen: Array) -> FeatureRows:
        rows = np.repeat(chosen, self.candidates)
        return FeatureRows(
            matrix=self.matrix[rows],
            relevant=self.relevant[rows],
            candidates=self.candidates[chosen],
            place=self.place[chosen],
            base=self.base[chosen],
            labels=self.labels[chosen],
        )


def joined_rows(rows: Sequence[FeatureRows]) -> FeatureRows:
    """Several as one."""
    names = [column.name for column in fields(FeatureRows)]
    return FeatureRows(**{name: np.concatenate([getattr(r, name) for r in rows]) for name in names})


class Reading(NamedTuple):
    """What learning reads of candidates."""

    columns: Callable[[Sequence[str], bool], tuple[str, ...]]
    """Their names, by the retrievers and whether training texts are known."""
    matrix: Callable[[Pools], Floats]
    """Candidates x columns."""


FEATURES = Reading(feature_names, feature_matrix)
BANDS = Reading(lambda retrievers, trained: band_columns(retrievers), band_matrix)


def read_batches(rows: pa.Table, layout: Layout, train_texts: TrainTexts | None) -> Iterator[Batch]:
    """List rows in this process as batches of texts by id, which know how frequent their labels are."""
    problems = Problems()
    ordered = rows.take(pc.sort_indices(rows, [("text_id", "ascending")])).combine_chunks()
    for table in whole_keys(iter(ordered.to_batches(max_chunksize=ROWS_AT_ONCE)), ["text_id"]):
        batch = read_texts(table, layout, problems)
        if problems:
            raise problems.error()
        if batch is not None:
            if train_texts is not None:
                train_texts.attach(batch)
            yield batch


def feature_rows(
    rows: pa.Table,
    layout: Layout,
    views: tuple[str, ...],
    train_texts: TrainTexts | None,
    parting: Parting,
    reading: Reading = FEATURES,
) -> dict[str, FeatureRows]:
    """By view, the rows that fusions learn from: of texts that have a relevant label in the view."""
    found: dict[str, list[FeatureRows]] = {view: [] for view in views}
    for batch in read_batches(rows, layout, train_texts):
        place = places_of(batch.text_id, parting.seed)
        base = parting.base(batch.text_id, batch.fold).astype(np.int64)
        counted = {
            view: batch.judged & ((batch.texts.relevant_counts(layout.group_names, view) > 0) | (view == ALL))
            for view in views
        }
        labels = batch.texts.relevant_counts(layout.group_names, ALL)
        for first, block in batch.texts.blocks():
            for (pool_view,) in pool_views(block, views, layout.group_names, "group", keep_all=True):
                pools = pool_view.pools
                text = pools.source + first
                relevant = np.zeros(len(pools.label), np.bool_)
                relevant[pool_view.relevant_candidate] = True
                of_block = FeatureRows(
                    matrix=reading.matrix(pools),
                    relevant=relevant,
                    candidates=np.diff(pools.offset),
                    place=place[text],
                    base=base[text],
                    labels=labels[text],
                )
                found[pool_view.view].append(of_block.of_texts(counted[pool_view.view][text]))
    return {view: joined_rows(of_view) for view, of_view in found.items()}
