"""What the workers must know about the rows they get, and the problems they find in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.label_groups import ALL
from fusion.types import Array, Ints

JUDGEMENT = -1
"""The list code of the rows that hold a text's relevant labels. Where the number of its words is known, the band that
this falls into (fusion/statistics/text_lengths.py) is told by a code below: JUDGEMENT - 1 - band."""


def is_judgement(codes: Array) -> Array:
    """Which list codes are those of judgements."""
    return np.asarray(codes <= JUDGEMENT)


@dataclass(frozen=True)
class LabelIndex:
    """The places of labels in a list of ids."""

    ids: pa.Array

    def places(self, labels: pa.Array) -> Ints:
        """The place of each label; the number of ids where it is not among them."""
        if pa.types.is_int32(labels.type) and self._table is not None:
            return _looked_up(self._table, labels)
        place = pc.index_in(labels, value_set=self.ids.cast(labels.type))
        return np.asarray(place.fill_null(len(self.ids)).to_numpy(), np.int64)

    @cached_property
    def _table(self) -> Array | None:
        return _table_by_id(self.ids, np.arange(len(self.ids), dtype=np.int32), len(self.ids))


@dataclass(frozen=True)
class LabelGroups:
    """The group of every label, as an index of `names`."""

    names: tuple[str, ...]
    ids: pa.Array
    codes: Array
    unknown: int = -1
    """The group of labels that are not listed; -1 if there is none, which is an error."""
    source: str = "label groups"

    def lookup(self, labels: pa.Array) -> Array:
        """The group of each label, -1 where it has none."""
        if pa.types.is_int32(labels.type) and self._table is not None:
            return _looked_up(self._table, labels)
        place = pc.index_in(labels, value_set=self.ids.cast(labels.type))
        known = np.append(self.codes, self.unknown).astype(self.codes.dtype)
        return known[place.fill_null(len(self.codes)).to_numpy()]

    @cached_property
    def _table(self) -> Array | None:
        return _table_by_id(self.ids, self.codes, self.unknown)


def _table_by_id(ids: pa.Array, values: Array, unknown: int) -> Array | None:
    """The values by label id, with one for unknown labels behind them; None unless ids are small numbers."""
    if not (pa.types.is_integer(ids.type) and len(ids)):
        return None
    places = ids.to_numpy()
    if places.min() < 0 or places.max() >= 50_000_000:
        return None
    table = np.full(places.max() + 2, unknown, values.dtype)
    table[places] = values
    return table


def _looked_up(table: Array, labels: pa.Array) -> Array:
    # As unsigned numbers, negative ids lie beyond the table, too, whose last value is that of unknown labels.
    return table[np.minimum(labels.to_numpy().view(np.uint32), len(table) - 1)]


@dataclass(frozen=True)
class Layout:
    """How list rows are coded: code = retriever * len(slots) + slot, or JUDGEMENT and below."""

    retrievers: tuple[str, ...]
    slots: tuple[str, ...]
    """The label groups that lists come in, or only `all`."""
    groups: LabelGroups | None = None
    sources: tuple[str, ...] = ()
    """Where each retriever's candidates came from, for messages."""
    judgements: str = "judgements"
    relevant_from: float | None = None
    """Where judgements have grades, as scores: the one from which a label is relevant. None: all judged labels are."""

    @property
    def group_names(self) -> tuple[str, ...]:
        return tuple(slot for slot in self.slots if slot != ALL)

    @property
    def views(self) -> tuple[str, ...]:
        """What can be ranked: the labels of each group, and all labels together."""
        return (*self.group_names, ALL)

    def describe(self, code: int) -> tuple[str, str, str]:
        """The source, the retriever and the label group of a list code."""
        if code <= JUDGEMENT:
            return self.judgements, "", ""
        retriever, slot = divmod(code, len(self.slots))
        source = self.sources[retriever] if self.sources else self.retrievers[retriever]
        group = "" if self.slots[slot] == ALL else self.slots[slot]
        return source, self.retrievers[retriever], group
