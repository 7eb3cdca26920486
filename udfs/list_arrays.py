"""List rows as arrays of entries, checked row by row, before they are laid out by text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.types import Array, Floats, Int32s, Ints
from udfs.lists import IN_FOLD, JUDGEMENT, NO_FOLD, NOT_TESTED, Layout, number_labels
from udfs.problems import Problem, Problems

LIST_ROW = ("text_id", "fold", "list", "label_ids", "scores")
"""The columns of a list row."""


@dataclass
class Rows:
    """List rows, for reporting what is wrong with some of them."""

    text_id: pa.Array
    code: Array
    layout: Layout
    problems: Problems
    bad: bool = False
    """Whether any of them was reported."""

    @property
    def is_judgement(self) -> Array:
        return np.asarray(self.code <= JUDGEMENT)

    @property
    def groups_source(self) -> str:
        return self.layout.groups.source if self.layout.groups else ""

    def report(self, bad: Array, column: str, what: str, detail: Callable[[int], str] = lambda row: "") -> None:
        """Report rows; `detail` says more about one of them, such as which of its labels is meant."""
        where = np.flatnonzero(bad)
        self.bad |= len(where) > 0
        for code in np.unique(self.code[where]):
            same = where[self.code[where] == code]
            source, retriever, group = self.layout.describe(int(code))
            first = [
                Problem(
                    what=what,
                    source=source,
                    column=column,
                    text_id=str(self.text_id[row].as_py()),
                    retriever=retriever,
                    label_group=group,
                    detail=detail(int(row)),
                )
                for row in same[: self.problems.keep]
            ]
            kind = (source, column, what)
            self.problems.update(Problems(found={kind: first}, counts={kind: len(same)}))


@dataclass(frozen=True)
class Marks:
    """What rows without a list say of texts, which are numbered."""

    text: Ints
    fold: Int32s
    kind: Ints

    @classmethod
    def apart(cls, number: Ints, fold: Int32s, code: Array, layout: Layout) -> tuple[Marks, Array]:
        """Of all rows, those without a list, and which others are read: those of texts in a fold and, where runs say
        which texts have a role, of those that have it. A text with rows of another role only does not have it; one
        without rows is tested."""
        lists, texts = code < layout.marks, int(number[-1]) + 1
        marks = cls(number[~lists], fold[~lists], code[~lists].astype(np.int64) - layout.marks)
        inside = np.zeros(texts, np.bool_)
        inside[marks.text[marks.kind == IN_FOLD]] = True
        counted: Array = lists & ((fold != NO_FOLD) | inside[number])
        if layout.form.naming_roles:
            named = np.zeros(texts, np.bool_)
            named[number[lists & np.isin(_retrievers(code, layout), list(layout.form.naming_roles))]] = True
            if layout.form.role == "test":
                apart = np.zeros(texts, np.bool_)
                apart[marks.text[marks.kind == NOT_TESTED]] = True
                named |= ~apart
            counted &= named[number]
        return marks, counted

    def placed(self, number: Ints, fold: Int32s) -> tuple[Ints, Int32s]:
        """List rows in their folds, as row numbers with folds: a row without a fold of its own is in all of its
        text."""
        chosen = self.kind == IN_FOLD
        text, own = self.text[chosen], self.fold[chosen]
        order = np.argsort(text, kind="stable")
        of_text = np.bincount(text, minlength=int(number.max(initial=-1)) + 1)
        first = np.cumsum(of_text) - of_text
        times = np.where(fold == NO_FOLD, of_text[number], 1)
        row = np.repeat(np.arange(len(number)), times)
        within = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
        given = fold[row]
        open_ = given == NO_FOLD
        given[open_] = own[order[(first[number[row]] + within)[open_]]]
        return row, given


def _retrievers(code: Array, layout: Layout) -> Array:
    """The retriever of each list, or JUDGEMENT."""
    of_whole = np.where(code >= layout.whole, code - layout.whole, code // len(layout.slots))
    return np.where(code <= JUDGEMENT, JUDGEMENT, of_whole)


@dataclass(frozen=True)
class ListArrays:
    """Lists as ranges of entries, `offset[row]` to `offset[row + 1]`."""

    number: Ints
    """Of the text of each row."""
    fold: Int32s
    code: Array
    offset: Ints
    label: Int32s
    score: Floats
    decode: Callable[[Int32s], pa.Array]
    normalized: Mapping[str, Floats] = field(default_factory=dict)
    """What else is known of every entry."""
    slot: Array | None = None
    """The label group of every entry, where it is known."""

    @property
    def owner(self) -> Ints:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.code)), np.diff(self.offset))

    def entries(self, order: Array, offset: Ints) -> ListArrays:
        """With some of the entries, or in another order."""
        return replace(
            self,
            offset=offset,
            label=self.label[order],
            score=self.score[order],
            normalized={name: values[order] for name, values in self.normalized.items()},
            slot=None if self.slot is None else self.slot[order],
        )


def list_arrays(
    columns: Mapping[str, pa.Array], number: Ints, fold: Int32s, code: Array, rows: Rows
) -> ListArrays | None:
    """The columns of list rows as arrays; None if a row cannot be used."""
    labels, scores = columns["label_ids"], columns["scores"]
    lengths = pc.fill_null(pc.list_value_length(labels), -1).to_numpy()
    score_lengths = pc.fill_null(pc.list_value_length(scores), -1).to_numpy()
    # Judgements without grades.
    bare = (code <= JUDGEMENT) & (score_lengths < 0)
    rows.report(lengths < 0, "label_ids", "null instead of a list")
    ragged = (lengths != score_lengths) & (lengths >= 0) & ~bare
    rows.report(ragged, "scores", "label_ids and scores of unequal length")
    if rows.bad:
        return None
    offset = np.concatenate(([0], np.cumsum(lengths)))
    flat = labels.flatten()
    if flat.null_count:
        owner = np.repeat(np.arange(len(lengths)), lengths)
        rows.report(_mark(owner, flat.is_null(), len(lengths)), "label_ids", "null id")
        return None
    label, decode = number_labels(flat)
    score = pc.fill_null(scores.flatten(), np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
    if bare.any():
        score, given = np.zeros(len(label)), score
        score[np.repeat(~bare, lengths)] = given
    form = rows.layout.form
    if form.distances:
        turned = np.isin(_retrievers(code, rows.layout), list(form.distances))
        # Subtracted from 0, which stays 0 without a sign.
        score = np.where(np.repeat(turned, lengths), 0 - score, score)
    lists = ListArrays(number=number, fold=fold, code=code, offset=offset, label=label, score=score, decode=decode)
    return _joined(lists, rows) if form.fragments else lists


def _joined(lists: ListArrays, rows: Rows) -> ListArrays:
    """Lists that come in several rows as one row each."""
    code = lists.code.astype(np.int64)
    order = np.lexsort((lists.fold, code, lists.number))
    key = np.stack([lists.number[order], code[order], lists.fold[order].astype(np.int64)])
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    begins |= ~np.isin(_retrievers(code[order], rows.layout), list(rows.layout.form.fragments))
    size, first = np.diff(lists.offset)[order], lists.offset[:-1][order]
    entry = np.repeat(first - np.cumsum(size) + size, size) + np.arange(size.sum())
    row = order[begins]
    offset = np.append(0, np.cumsum(size))[np.append(np.flatnonzero(begins), len(order))]
    rows.text_id, rows.code = rows.text_id.take(pa.array(row)), lists.code[row]
    joined = lists.entries(entry, offset)
    return replace(joined, number=lists.number[row], fold=lists.fold[row], code=lists.code[row])


def _mark(owner: Ints, bad: pa.Array, size: int) -> Array:
    marked = np.zeros(size, np.bool_)
    marked[owner[bad.to_numpy(zero_copy_only=False)]] = True
    return marked
