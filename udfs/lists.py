"""The rows of ranked lists as workers get and give them: codes, label ids, and how rows are spread."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.labels import ALL
from fusion.retrieval.ranked import Ranked
from fusion.types import Array, Int32s, Ints
from udfs.steps import Batches, Step

JUDGEMENT = -1
"""The list code of the rows that hold a text's relevant labels. Where the number of its words is known, the band that
this falls into (fusion/statistics/watchers.py) is told by a code below: JUDGEMENT - 1 - band. Codes up to JUDGEMENT are
those of judgements, and no others."""

IN_FOLD, NOT_TESTED = 0, 1
"""What rows without a list say of a text, behind `Layout.marks`: that the fold of the row has it, and that a run has it
as a validation text."""
NO_FOLD = -1
"""The fold of rows whose text says in which folds it is."""


@dataclass(frozen=True)
class LabelIndex:
    """The places of labels in a list of ids."""

    ids: pa.Array

    def places(self, labels: pa.Array) -> Ints:
        """The place of each label; the number of ids where it is not among them."""
        if pa.types.is_int32(labels.type) and self._table is not None:
            return _looked_up(self._table, labels)
        return _places(labels, self.ids)

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
        codes: Array = np.append(self.codes, self.unknown).astype(self.codes.dtype)
        return codes[_places(labels, self.ids)]

    @cached_property
    def _table(self) -> Array | None:
        return _table_by_id(self.ids, self.codes, self.unknown)


def _places(labels: pa.Array, ids: pa.Array) -> Ints:
    """The place of each label among some ids; the number of ids where it is not among them. As strings, all ids can be
    compared."""
    kind = labels.type
    if kind != ids.type:
        kind = pa.int64() if pa.types.is_integer(kind) and pa.types.is_integer(ids.type) else pa.string()
    place = pc.index_in(labels.cast(kind), value_set=ids.cast(kind))
    return np.asarray(place.fill_null(len(ids)).to_numpy(), np.int64)


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
class InputForm:
    """How list rows come from the inputs, and what is still to be done with them; nothing, if they were read before."""

    fragments: frozenset[int] = frozenset()
    """The retrievers (or JUDGEMENT) whose lists may come in several rows, such as one per candidate."""
    undivided: bool = False
    """Whether some lists are still to be divided by label group."""
    distances: frozenset[int] = frozenset()
    """The retrievers of whose scores the lowest is the best: they get the opposite sign."""
    lowest: float | None = None
    """Judged labels with a lower grade are dropped; None: there are no grades."""
    folds: str = ""
    """The source of the folds, for messages."""
    role: str = "test"
    """What the texts are that are read."""
    naming_roles: frozenset[int] = frozenset()
    """The retrievers whose rows say which texts have the role, where no folds do."""


@dataclass(frozen=True)
class Layout:
    """How list rows are coded: code = retriever * len(slots) + slot, or JUDGEMENT and below. Where lists are to be
    divided by label group and are not yet, code = `whole` + retriever. Codes from `marks` on are rows without a list,
    which say something about their text: IN_FOLD, NOT_TESTED."""

    retrievers: tuple[str, ...]
    slots: tuple[str, ...]
    """The label groups that lists come in, or only `all`."""
    groups: LabelGroups | None = None
    sources: tuple[str, ...] = ()
    """Where each retriever's candidates came from, for messages."""
    judgements: str = "judgements"
    relevant_from: float | None = None
    """Where judgements have grades, as scores: the one from which a label is relevant. None: all judged labels are."""
    form: InputForm = InputForm()

    @property
    def whole(self) -> int:
        """The code of the first retriever's lists of all labels, where these are to be divided."""
        return len(self.retrievers) * len(self.slots)

    @property
    def marks(self) -> int:
        """The first code of rows without a list."""
        return self.whole + len(self.retrievers)

    @property
    def of_read(self) -> Layout:
        """The layout of rows that were read before (see `udfs.texts.list_rows`)."""
        return replace(self, form=InputForm())

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
        if code >= self.marks:
            return self.form.folds, "", ""
        if code >= self.whole:
            retriever = code - self.whole
            return (
                self.sources[retriever] if self.sources else self.retrievers[retriever],
                self.retrievers[retriever],
                "",
            )
        retriever, slot = divmod(code, len(self.slots))
        source = self.sources[retriever] if self.sources else self.retrievers[retriever]
        group = "" if self.slots[slot] == ALL else self.slots[slot]
        return source, self.retrievers[retriever], group


def number_labels(labels: pa.Array) -> tuple[Int32s, Callable[[Int32s], pa.Array]]:
    """Label ids as numbers in the order of the ids, and the way back.

    Ids that are 32-bit numbers stand for themselves. Others are numbered within the batch, in ascending order:
    whole numbers by value, then other strings by their code points.
    """
    if pa.types.is_int32(labels.type):
        values = labels.to_numpy()
        if not len(values) or values.min() >= 0:
            return values, lambda numbers: pa.array(numbers, pa.int32())
    encoded = labels.dictionary_encode()
    names = encoded.dictionary
    if pa.types.is_integer(names.type):
        order = np.argsort(names.to_numpy())
    else:
        words = names.to_pylist()
        order = np.array(sorted(range(len(words)), key=lambda i: id_order(words[i])), np.int64)
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    ordered = names.take(pa.array(order))
    return number[encoded.indices.to_numpy()], lambda numbers: ordered.take(pa.array(numbers))


def id_order(name: str) -> tuple[bool, int, str]:
    """The place of a label id that is a string: whole numbers by value come first."""
    whole = name.isascii() and name.isdecimal() and (name == "0" or name[0] != "0")
    # Without leading zeros, the shorter number is the lower one, and of two of one length the lower string.
    return (not whole, len(name) if whole else 0, name)


def accented_labels() -> Step:
    """The labels in lists that are strings with other characters than ASCII."""
    schema = pa.schema([("label_id", pa.string())])

    def run(batches: Batches) -> Batches:
        found = pa.array([], pa.string())
        for batch in batches:
            labels = pc.list_flatten(batch["label_ids"])
            accented = labels.filter(pc.invert(pc.string_is_ascii(labels)))
            found = pa.concat_arrays([found, accented]).unique() if len(accented) else found
        yield pa.RecordBatch.from_arrays([found], schema=schema)

    return Step(run, schema, adds_up=True)


def in_two_forms(names: Iterable[str]) -> list[list[str]]:
    """Names that look the same and are not: an accent may be part of its letter (NFC) or a character of its own (NFD).
    Both count as labels, so what lists one of them misses the other."""
    by_form: dict[str, list[str]] = defaultdict(list)
    for name in names:
        if not name.isascii():
            by_form[unicodedata.normalize("NFC", name)].append(name)
    return sorted(sorted(same) for same in by_form.values() if len(same) > 1)


def forms_warning(same: Sequence[str], where: Mapping[str, str]) -> str:
    """The words about a label in two forms; `where`: the source of each."""
    shown = " and ".join(f"{name!a} in {where[name]}" for name in same)
    return (
        f"warning: the label {same[0]!r} is written in several Unicode forms, which count as different labels: "
        f"{shown}; write all labels in one form (NFC)"
    )


def lists_schema(ids: pa.DataType) -> pa.Schema:
    """The table `candidates`, one row per ranked list, for text ids of a type."""
    return pa.schema(
        [
            ("fold", pa.int32()),
            ("retriever", pa.string()),
            ("text_id", ids),
            ("label_group", pa.string()),
            ("label_ids", pa.list_(pa.int32())),
            ("scores", pa.list_(pa.float32())),
        ]
    )


def list_rows(fold: int, retriever: str, text_id: pa.Array, groups: Sequence[str], lists: Ranked) -> pa.RecordBatch:
    """One row for each list that is not empty; list number q * g + j is that of text q and group j."""
    kept = np.flatnonzero(np.diff(lists.offset))
    query, group = np.divmod(kept, len(groups))
    # What lies between two kept lists is empty, so the next one's beginning is this one's end.
    offset = pa.array(np.append(lists.offset[kept], lists.offset[-1]), pa.int32())
    columns = [
        pa.array(np.full(len(kept), fold, np.int32)),
        pa.array([retriever] * len(kept), pa.string()),
        text_id.take(pa.array(query)),
        pa.array(groups, pa.string()).take(pa.array(group)),
        pa.ListArray.from_arrays(offset, pa.array(lists.item)),
        pa.ListArray.from_arrays(offset, pa.array(lists.score)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=lists_schema(text_id.type))
