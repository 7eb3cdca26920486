"""The texts that each cell helps and hurts most against each single retriever, gathered from many batches.

Their lists are kept with them: to look a few texts up again, all lists would have to be read a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.metrics import Aspect, Metric
from fusion.statistics.paired import Watch
from fusion.statistics.watchers import NOBODY, Extremes
from fusion.types import Int32s, Ints
from udfs.lists import Layout
from udfs.texts import Batch, list_rows

PAIR = ("view", "outcome", "column", "retriever")
"""What the texts are kept for."""
MOST_BATCHES = 16
"""After this many batches, the lists of texts that others have displaced are dropped."""


class Kept(NamedTuple):
    """Texts by what they are kept for, with both figures, and the list rows of these texts."""

    texts: pa.Table
    lists: pa.Table


class ExampleTexts:
    """Of every view, outcome, fused column and retriever the texts with the greatest differences, by one metric.

    Texts are numbered by id, which decides between equal differences. Batches mostly come in the order of ids, and then
    numbers go on from one to the next; where they do not, what was kept is set aside, and numbers start again."""

    def __init__(
        self, layout: Layout, views: Sequence[str], columns: int, retrievers: int, metric: Metric, keep: int
    ) -> None:
        self.keep = keep
        self._layout, self._views, self._metric = layout, views, metric
        self._shape = (columns, retrievers, keep)
        self._set_aside: list[Kept] = []
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._extremes = {view: Extremes(*self._shape) for view in self._views}
        self._seen = 0
        self._last_id: pa.Scalar | None = None
        self._texts: list[pa.Table] = []
        """Number, id and fold of texts that are, or were, among the extremes; by number."""
        self._lists: list[pa.Table] = []

    def begin(self, batch: Batch) -> None:
        """The texts of a batch, which are watched until `end`."""
        ids = pc.min_max(batch.text_id)
        if self._last_id is not None and not pc.less(self._last_id, ids["min"]).as_py():
            self._finish()
        self._batch, self._last_id = batch, ids["max"]
        self._numbers = self._seen + places_by_id(batch.text_id, batch.fold)

    def watch(self, view: str) -> Watch:
        """What sees the figures of the batch in a view."""
        return Watch(Aspect(view, *self._metric), self._extremes[view], self._numbers)

    def end(self) -> None:
        """Keep what the batch has to offer."""
        batch, kept = self._batch, self._kept_numbers()
        new = kept[kept >= self._seen]
        chosen = np.argsort(self._numbers)[new - self._seen]
        about = {"text_id": batch.text_id.take(pa.array(chosen)), "fold": pa.array(batch.fold[chosen], pa.int32())}
        self._texts.append(pa.table({"number": new, **about}))
        self._lists.append(list_rows(batch, self._layout, chosen))
        self._seen += len(self._numbers)
        if len(self._lists) > MOST_BATCHES:
            self._drop_displaced(kept)

    def _kept_numbers(self) -> Ints:
        """Those that are among the extremes of some view, ascending."""
        numbers = np.unique(np.concatenate([of_view.text.ravel() for of_view in self._extremes.values()]))
        return numbers[numbers != NOBODY]

    def _drop_displaced(self, kept: Ints) -> None:
        """Forget texts that are no longer among the extremes."""
        texts = pa.concat_tables(self._texts)
        self._texts = [texts.filter(pa.array(np.isin(texts["number"].to_numpy(), kept)))]
        self._lists = [_lists_of(self._texts[0], self._lists)]

    def _finish(self) -> None:
        """Set aside what was kept so far."""
        rows = _rows(list(self._extremes.values()), pa.concat_tables(self._texts))
        self._set_aside = [_merged([*self._set_aside, Kept(rows, pa.concat_tables(self._lists))], self.keep)]
        self._begin_anew()

    def packed(self) -> list[bytes]:
        """All that is kept; nothing if there was no batch."""
        if self._texts:
            self._finish()
        return [to_bytes(kept) for kept in self._set_aside]


def merged(packed: Sequence[bytes], keep: int) -> Kept:
    """What is kept of all that workers kept."""
    return _merged([from_bytes(content) for content in packed], keep)


def _merged(every: Sequence[Kept], keep: int) -> Kept:
    texts = most_extreme(pa.concat_tables([kept.texts for kept in every]), keep)
    return Kept(texts, _lists_of(texts, [kept.lists for kept in every]))


def _lists_of(texts: pa.Table, lists: Sequence[pa.Table]) -> pa.Table:
    """The list rows of some texts."""
    every = pa.concat_tables(lists)
    return every.filter(pc.is_in(every["text_id"], value_set=pc.unique(texts["text_id"])))


def places_by_id(text_id: pa.Array, fold: Int32s) -> Ints:
    """The place of each text of a batch in the order of ids, which decides between equal differences."""
    keys = pa.table({"text_id": text_id, "fold": fold})
    order = pc.sort_indices(keys, [("text_id", "ascending"), ("fold", "ascending")]).to_numpy()
    return np.argsort(order)


def most_extreme(rows: pa.Table, keep: int) -> pa.Table:
    """The first texts of every pair: by difference, then by id."""
    order = [("difference", "descending"), ("text_id", "ascending"), ("fold", "ascending")]
    ordered = rows.sort_by([*((name, "ascending") for name in PAIR), *order])
    pairs = np.stack([ordered[name].to_numpy().astype(np.int64) for name in PAIR])
    another = np.ones(len(ordered), np.bool_)
    another[1:] = (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)
    first = np.maximum.accumulate(np.where(another, np.arange(len(ordered)), 0))
    return ordered.filter(pa.array(np.arange(len(ordered)) - first < keep)).combine_chunks()


def to_bytes(kept: Kept) -> bytes:
    sink = pa.BufferOutputStream()
    for table in kept:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(content: bytes) -> Kept:
    source = pa.BufferReader(content)
    return Kept(*(pa.ipc.open_stream(source).read_all() for _ in Kept._fields))


def _rows(extremes: Sequence[Extremes], texts: pa.Table) -> pa.Table:
    """What is in `extremes`, one item per view, with the ids and folds of the texts of these numbers."""
    tables = []
    for v, of_view in enumerate(extremes):
        entry = np.nonzero(of_view.text != NOBODY)
        text = pa.array(np.searchsorted(texts["number"].to_numpy(), of_view.text[entry]))
        columns = {
            "view": np.full(len(text), v, np.int32),
            "outcome": entry[0].astype(np.int32),
            "column": entry[1].astype(np.int32),
            "retriever": entry[2].astype(np.int32),
            "difference": of_view.difference[entry],
            "figure": of_view.figure[entry],
            "text_id": texts["text_id"].take(text),
            "fold": texts["fold"].take(text),
        }
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)
