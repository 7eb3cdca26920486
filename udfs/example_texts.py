"""The texts that each cell helps and hurts most against each single retriever, gathered from many batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.statistics.extremes import NOBODY, Extremes
from fusion.statistics.paired import Aspect, Watch
from fusion.types import Int32s, Ints

PAIR = ("view", "outcome", "column", "retriever")
"""What the texts are kept for."""


class ExampleTexts:
    """Of every view, outcome, fused column and retriever the texts with the greatest differences, by one measure."""

    def __init__(self, views: Sequence[str], columns: int, retrievers: int, measure: Measure, keep: int) -> None:
        self.keep = keep
        self._views, self._measure = views, measure
        self._shape = (columns, retrievers, keep)
        self._rows: list[pa.Table] = []

    def begin(self, text_id: pa.Array, fold: Int32s) -> None:
        """The texts of a batch, which are watched until `end`."""
        self._text_id, self._fold = text_id, fold
        self._places = places_by_id(text_id, fold)
        self._extremes = {view: Extremes(*self._shape) for view in self._views}

    def watch(self, view: str) -> Watch:
        """What sees the figures of the batch in a view."""
        return Watch(Aspect(view, self._measure, ALL), self._extremes[view], self._places)

    def end(self) -> None:
        """Keep what the batch has to offer."""
        self._rows.append(_rows(list(self._extremes.values()), self._places, self._text_id, self._fold))
        self._rows = [most_extreme(pa.concat_tables(self._rows), self.keep)]

    def packed(self) -> list[bytes]:
        """All that is kept; nothing if there was no batch."""
        return [to_bytes(rows) for rows in self._rows]


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


def to_bytes(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    return sink.getvalue().to_pybytes()


def from_bytes(packed: Sequence[bytes]) -> pa.Table:
    """The rows of all packed tables."""
    return pa.concat_tables([pa.ipc.open_stream(content).read_all() for content in packed])


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
