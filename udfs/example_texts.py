"""The texts that each cell helps and hurts most against each single retriever, gathered from many batches.

Their lists are kept with them: to look a few texts up again, all lists would have to be read a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.statistics.extremes import NOBODY, OUTCOMES, Extremes
from fusion.statistics.paired import Aspect, Watch
from fusion.types import Floats, Int32s, Ints
from udfs.list_codes import Layout
from udfs.text_batches import Batch, list_rows

PAIR = ("view", "outcome", "column", "retriever")
"""What the texts are kept for."""
MOST_BATCHES = 16
"""After so many batches, the lists of texts that others have displaced are dropped."""


class Kept(NamedTuple):
    """Texts by what they are kept for, with both figures, and the list rows of these texts."""

    texts: pa.Table
    lists: pa.Table


class ExampleTexts:
    """Of every view, outcome, fused column and retriever the texts with the greatest differences, by one measure."""

    def __init__(
        self, layout: Layout, views: Sequence[str], columns: int, retrievers: int, measure: Measure, keep: int
    ) -> None:
        self.keep = keep
        self._layout, self._views, self._measure = layout, views, measure
        self._shape = (columns, retrievers, keep)
        self._texts: pa.Table | None = None
        self._lists: list[pa.Table] = []
        self._least: Floats = np.zeros((len(views), len(OUTCOMES), columns, retrievers))
        """The least difference that is kept of each pair; 0 while there is room for more."""
        self._last: pa.Scalar | None = None
        """The greatest id so far."""

    def begin(self, batch: Batch) -> None:
        """The texts of a batch, which are watched until `end`."""
        self._batch = batch
        self._places = places_by_id(batch.text_id, batch.fold)
        # Of equal differences the one of the lower id is kept; differences are whole numbers.
        ids = pc.min_max(batch.text_id)
        in_order = self._last is not None and pc.less(self._last, ids["min"]).as_py()
        least = self._least if in_order else np.maximum(self._least - 1, 0)
        self._last = ids["max"] if self._last is None else pc.max_element_wise(self._last, ids["max"])
        self._extremes = {
            view: Extremes(*self._shape, of_view) for view, of_view in zip(self._views, least, strict=True)
        }

    def watch(self, view: str) -> Watch:
        """What sees the figures of the batch in a view."""
        return Watch(Aspect(view, self._measure, ALL), self._extremes[view], self._places)

    def end(self) -> None:
        """Keep what the batch has to offer."""
        batch = self._batch
        offered = _rows(list(self._extremes.values()), self._places, batch.text_id, batch.fold)
        if self._texts is not None:
            offered = pa.concat_tables([self._texts, offered])
        self._texts = most_extreme(offered, self.keep)
        chosen = pc.is_in(batch.text_id, value_set=pc.unique(self._texts["text_id"]))
        self._lists.append(list_rows(batch, self._layout, np.flatnonzero(chosen.to_numpy(zero_copy_only=False))))
        if len(self._lists) > MOST_BATCHES:
            self._lists = [_lists_of(self._texts, self._lists)]
        self._least = _least_kept(self._texts, self._least.shape, self.keep)

    def packed(self) -> list[bytes]:
        """All that is kept; nothing if there was no batch."""
        return [] if self._texts is None else [to_bytes(Kept(self._texts, _lists_of(self._texts, self._lists)))]


def merged(packed: Sequence[bytes], keep: int) -> Kept:
    """What is kept of all that workers kept."""
    every = [from_bytes(content) for content in packed]
    texts = most_extreme(pa.concat_tables([kept.texts for kept in every]), keep)
    return Kept(texts, _lists_of(texts, [kept.lists for kept in every]))


def _lists_of(texts: pa.Table, lists: Sequence[pa.Table]) -> pa.Table:
    """The list rows of texts that are still kept."""
    every = pa.concat_tables(lists)
    return every.filter(pc.is_in(every["text_id"], value_set=pc.unique(texts["text_id"])))


def _least_kept(texts: pa.Table, shape: tuple[int, ...], keep: int) -> Floats:
    """The least difference of every pair that has as many texts as are kept, and 0 of the others."""
    pairs = tuple(texts[name].to_numpy() for name in PAIR)
    number, least = np.zeros(shape, np.int64), np.full(shape, np.inf)
    np.add.at(number, pairs, 1)
    np.minimum.at(least, pairs, texts["difference"].to_numpy())
    return np.where(number == keep, least, 0.0)


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


def _rows(extremes: Sequence[Extremes], places: Ints, text_id: pa.Array, fold: Int32s) -> pa.Table:
    """The texts that are in `extremes`, one item per view, by their places."""
    text_at = np.argsort(places)
    tables = []
    for v, of_view in enumerate(extremes):
        entry = np.nonzero(of_view.text != NOBODY)
        text = text_at[of_view.text[entry]]
        columns = {
            "view": np.full(len(text), v, np.int32),
            "outcome": entry[0].astype(np.int32),
            "column": entry[1].astype(np.int32),
            "retriever": entry[2].astype(np.int32),
            "difference": of_view.difference[entry],
            "figure": of_view.figure[entry],
            "text_id": text_id.take(pa.array(text)),
            "fold": pa.array(fold[text], pa.int32()),
        }
        tables.append(pa.table(columns))
    return pa.concat_tables(tables)
