"""Text blocks: texts with their ranked lists and relevant labels, and the rankings that are to be made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.kernel.pools import Lists, Pools, Relevant, merge_lists
from fusion.labels import ALL
from fusion.types import Array, Floats, Int32s, Ints

Scope = Literal["group", "joint"]

TEXTS_PER_BLOCK = 128
ENTRIES_PER_BLOCK = 200_000
"""Text blocks are small enough for the processor's caches and large enough to make calls cheap."""


LARGEST_LABEL = 1_000_000
"""A table that is indexed by label numbers below this one is small."""


def small_numbers(label: Int32s) -> Int32s:
    """The labels by numbers that a table can be indexed by: their own ones, unless these are large."""
    if label.max(initial=0) < LARGEST_LABEL:
        return label
    return np.unique(label, return_inverse=True)[1].astype(np.int32)


class Judged(NamedTuple):
    """The judged labels of each text, ascending, with their groups and grades."""

    labels: Relevant
    group: Array
    grade: Floats

    def some(self, texts: slice | Array) -> Judged:
        """Of some texts."""
        return self._replace(labels=self.labels._replace(start=self.labels.start[texts], stop=self.labels.stop[texts]))


@dataclass
class TextBlock:
    """Lists [text, retriever, slot] as ranges of `label` and `score`, best first; relevant labels ascending."""

    slots: tuple[str, ...]
    """What the third axis holds: the label groups, or `all`, or both."""
    start: Ints
    stop: Ints
    label: Int32s
    score: Floats
    group: Array
    """The label group of every entry, as an index of the groups; empty where there are none."""
    relevant: Relevant
    relevant_group: Array
    normalized: Mapping[str, Floats] = field(default_factory=dict)
    """Scores of the entries that were normalised elsewhere."""
    judged: Judged | None = None
    """All judged labels with their grades, where there are grades; `relevant` are some of these."""
    fold: Array | None = None
    """The fold of each text, where that matters."""
    train_texts: tuple[Int32s, Ints] | None = None
    """How many training texts carry each label (rows x labels), and the row of each text, where that matters."""

    def __len__(self) -> int:
        return len(self.start)

    def blocks(self) -> Iterator[tuple[int, TextBlock]]:
        """The texts in text blocks, each with the index of its first one."""
        entries = np.cumsum((self.stop - self.start).sum(axis=(1, 2)))
        first = 0
        while first < len(entries):
            done = entries[first - 1] if first else 0
            last = int(np.searchsorted(entries, done + ENTRIES_PER_BLOCK))
            last = min(max(last, first + 1), first + TEXTS_PER_BLOCK, len(entries))
            yield first, self.some(slice(first, last))
            first = last

    def some(self, texts: slice | Array) -> TextBlock:
        """Some of the texts."""
        return replace(
            self,
            start=self.start[texts],
            stop=self.stop[texts],
            relevant=self.relevant._replace(start=self.relevant.start[texts], stop=self.relevant.stop[texts]),
            judged=None if self.judged is None else self.judged.some(texts),
            fold=None if self.fold is None else self.fold[texts],
            train_texts=None if self.train_texts is None else (self.train_texts[0], self.train_texts[1][texts]),
        )

    def lists(self, view: str) -> Lists:
        """The lists of one label group, or of all labels: joined where they are stored by group."""
        if view == ALL and ALL not in self.slots:
            return self._joined
        s = self.slots.index(view)
        return Lists(self.start[:, :, s], self.stop[:, :, s], self.label, self.score, self.group)

    @cached_property
    def _joined(self) -> Lists:
        return Lists(*_join(self.start, self.stop, self.label, self.score))

    def by_group(self, groups: tuple[str, ...]) -> TextBlock:
        """The same lists divided by label group, where they are stored as lists of all labels."""
        if self.slots != (ALL,) or not groups:
            return self
        texts, retrievers, _ = self.start.shape
        size = (self.stop - self.start).ravel()
        owner = np.repeat(np.arange(texts * retrievers), size)
        entry = np.repeat(self.stop.ravel() - np.cumsum(size), size) + np.arange(len(owner))
        slot = owner * len(groups) + self.group[entry]
        entry = entry[np.argsort(slot, kind="stable")]
        count = np.bincount(slot, minlength=texts * retrievers * len(groups))
        stop = np.cumsum(count).reshape(texts, retrievers, len(groups))
        start = stop - count.reshape(stop.shape)
        return replace(
            self,
            slots=groups,
            start=start,
            stop=stop,
            label=self.label[entry],
            score=self.score[entry],
            group=self.group[entry],
            normalized={},
        )

    def relevant_counts(self, groups: tuple[str, ...], view: str) -> Ints:
        """The number of relevant labels that each text has in a view."""
        counts = self.relevant.stop - self.relevant.start
        if view == ALL:
            return counts
        within = np.concatenate(([0], np.cumsum(self.relevant_group == groups.index(view))))
        return within[self.relevant.stop] - within[self.relevant.start]

    def relevant_labels(self, groups: tuple[str, ...], view: str, wanted: Array) -> Int32s:
        """The relevant labels in a view, of the texts that `wanted` marks."""
        start, stop = self.relevant.start[wanted], self.relevant.stop[wanted]
        entry = np.repeat(stop - np.cumsum(stop - start), stop - start) + np.arange((stop - start).sum())
        if view != ALL:
            entry = entry[self.relevant_group[entry] == groups.index(view)]
        return self.relevant.label[entry]

    def grades_of(self, text: Ints, label: Int32s) -> Floats:
        """The grades of some labels of texts, each of which is judged."""
        assert self.judged is not None
        labels, _, grade = self.judged
        grades: Floats = _grades_of(labels.start, labels.stop, labels.label, grade, text, label)
        return grades


class PoolView(NamedTuple):
    """A view of a text block: which candidates are ranked against each other, and which of them are relevant.

    The candidates of query `source[p]` are `member[offset[p]:offset[p + 1]]`, or that range itself if `member` is
    None; `relevant` points into the members.
    """

    view: str
    pools: Pools
    normalized: dict[str, Floats]
    member: Ints | None
    offset: Ints
    relevant: Ints
    relevant_offset: Ints

    def take(self, values: Array) -> Array:
        return values if self.member is None else values[self.member]

    @property
    def relevant_candidate(self) -> Ints:
        return self.relevant if self.member is None else self.member[self.relevant]


def pool_views(
    texts: TextBlock, views: tuple[str, ...], groups: tuple[str, ...], scope: Scope, keep_all: bool
) -> Iterator[list[PoolView]]:
    """The views of a text block, together where they share their pools.

    Scope `group` fuses the lists of each label group on their own; `joint` fuses all candidates of a text
    and then looks at each group's part of the result. All labels together are one list per retriever in both.
    """
    for merged, seen in [(view, (view,)) for view in views] if scope == "group" else [(ALL, views)]:
        pools, normalized = _merged_pools(texts, merged, keep_all)
        whole = PoolView(
            view=merged,
            pools=pools,
            normalized=normalized,
            member=None,
            offset=pools.offset,
            relevant=pools.relevant,
            relevant_offset=pools.relevant_offset,
        )
        yield [whole if view == merged else _part(whole, view, groups.index(view)) for view in seen]


def _merged_pools(texts: TextBlock, view: str, keep_all: bool) -> tuple[Pools, dict[str, Floats]]:
    lists = texts.lists(view)
    wanted = texts.relevant if texts.judged is None else texts.judged.labels
    pools = merge_lists(lists, wanted, keep_all)
    pools.view, pools.fold = view, None if texts.fold is None else texts.fold[pools.source]
    if texts.train_texts is not None:
        pools.train_texts = (texts.train_texts[0], texts.train_texts[1][pools.source])
    if not texts.normalized:
        return pools, {}
    first = np.repeat(lists.start[pools.source].T, np.diff(pools.offset), axis=1)
    entry = np.where(pools.position >= 0, first + pools.position, 0)
    return pools, {name: values[entry] for name, values in texts.normalized.items()}


def _part(whole: PoolView, view: str, group: int) -> PoolView:
    """What a label group has of the pools of all labels."""
    pools = whole.pools
    inside = pools.group == group
    before = np.concatenate(([0], np.cumsum(inside)))
    hit = inside[pools.relevant]
    hits_before = np.concatenate(([0], np.cumsum(hit)))
    return whole._replace(
        view=view,
        member=np.flatnonzero(inside),
        offset=before[pools.offset],
        relevant=before[pools.relevant[hit]],
        relevant_offset=hits_before[pools.relevant_offset],
    )


@compiled
def _grades_of(start, stop, judged_label, grade, text, label):  # type: ignore[no-untyped-def]
    grades = np.empty(text.size)
    for j in range(text.size):
        first, last = start[text[j]], stop[text[j]]
        grades[j] = grade[first + np.searchsorted(judged_label[first:last], label[j])]
    return grades


@compiled
def _join(start, stop, label, score):  # type: ignore[no-untyped-def]
    """Merge the lists of all groups, each best first, into one list per retriever."""
    texts, retrievers, groups = start.shape
    entries = 0
    for q in range(texts):
        for r in range(retrievers):
            for g in range(groups):
                entries += stop[q, r, g] - start[q, r, g]
    new_start = np.empty((texts, retrievers), np.int64)
    new_stop = np.empty((texts, retrievers), np.int64)
    new_label = np.empty(entries, np.int32)
    new_score = np.empty(entries, np.float64)
    new_group = np.empty(entries, np.int8)
    cursor = np.empty(groups, np.int64)
    at = 0
    for q in range(texts):
        for r in range(retrievers):
            new_start[q, r] = at
            for g in range(groups):
                cursor[g] = start[q, r, g]
            while True:
                best = -1
                for g in range(groups):
                    if cursor[g] == stop[q, r, g]:
                        continue
                    e = cursor[g]
                    if best >= 0:
                        b = cursor[best]
                        if score[e] < score[b] or (score[e] == score[b] and label[e] > label[b]):
                            continue
                    best = g
                if best < 0:
                    break
                new_label[at] = label[cursor[best]]
                new_score[at] = score[cursor[best]]
                new_group[at] = best
                cursor[best] += 1
                at += 1
            new_stop[q, r] = at
    return new_start, new_stop, new_label, new_score, new_group
