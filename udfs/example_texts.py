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
        self._kept: list[Kept] = []
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
        if self._kept and not len(offered):
            return
        texts = most_extreme(pa.concat_tables([*(kept.texts for kept in self._kept), offered]), self.keep)
        chosen = pc.is_in(batch.text_id, value_set=pc.unique(texts["text_id"]))
        lists = list_rows(batch, self._layout, np.flatnonzero(chosen.to_numpy(zero_copy_only=False)))
        self._kept = [_joined([*self._kept, Kept(texts, lists)], texts)]
        self._least = _least_kept(texts, self._least.shape, self.keep)

    def packed(self) -> list[bytes]:
        """All that is kept; nothing if there was no batch."""
        return [to_bytes(kept) for kept in self._kept]


def merged(packed: Sequence[bytes], keep: int) -> Kept:
    """What is kept of all that workers kept."""
    every = [from_bytes(content) for content in packed]
    return _joined(every, most_extreme(pa.concat_tables([kept.texts for kept in every]), keep))


def _joined(every: Sequence[Kept], texts: pa.Table) -> Kept:
    """Some of the texts that were kept, and their lists."""
    ids = pc.unique(texts["text_id"])
    lists = [kept.lists.filter(pc.is_in(kept.lists["text_id"], value_set=ids)) for kept in every]
    return Kept(texts, pa.concat_tables(lists))


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
