"""Rows that cannot be used: counted where they are found, reported together at the end in words that name the label."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from fusion.errors import InputError, visible
from fusion.kernel.ranking import LARGEST, REPEATED, UNGROUPED, UNUSABLE, WRONG_GROUP
from fusion.types import Array, Floats, Int32s, Ints

REPEATED_LABEL = "the same label twice in a list"


@dataclass(frozen=True, order=True)
class Problem:
    """A row that cannot be used: what is wrong, in which column of which source, and where."""

    what: str
    source: str
    column: str
    text_id: str
    retriever: str = ""
    label_group: str = ""
    detail: str = ""

    def __str__(self) -> str:
        where = [f"text_id {self.text_id}"]
        where += [f"label_group {self.label_group}"] if self.label_group else []
        where += [self.detail] if self.detail else []
        return visible(", ".join(where))


@dataclass
class Problems:
    """Problems found so far: all are counted, the first few of each kind are kept."""

    keep: int = 5
    found: dict[tuple[str, str, str], list[Problem]] = field(default_factory=dict)
    counts: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, problem: Problem, count: int = 1) -> None:
        kind = (problem.source, problem.column, problem.what)
        self.counts[kind] = self.counts.get(kind, 0) + count
        self.found[kind] = sorted([*self.found.get(kind, []), problem])[: self.keep]

    def update(self, other: Problems) -> None:
        for kind, first in other.found.items():
            for n, problem in enumerate(first):
                # The first one also represents those that are not kept.
                self.add(problem, other.counts[kind] - len(first) + 1 if n == 0 else 1)

    def to_json(self) -> str:
        return json.dumps(
            [
                {"count": self.counts[kind], "first": [asdict(problem) for problem in first]}
                for kind, first in self.found.items()
            ]
        )

    @classmethod
    def from_json(cls, texts: Iterable[str]) -> Problems:
        problems = cls()
        for kind in (kind for text in texts for kind in json.loads(text)):
            first = [Problem(**problem) for problem in kind["first"]]
            key = (first[0].source, first[0].column, first[0].what)
            problems.update(cls(found={key: first}, counts={key: kind["count"]}))
        return problems

    def error(self, places: Mapping[Problem, str] | None = None) -> InputError:
        """The error that names the first problems of each kind; places: where they are in a file, in words."""
        places, lines = places or {}, []
        for kind in sorted(self.found):
            source, column, what = kind
            first = self.found[kind]
            lines.append(f"{visible(source)}: column {column!r}: {what} ({self.counts[kind]:,} in all). First:")
            lines += [f"  {places[problem]}: {problem}" if problem in places else f"  {problem}" for problem in first]
        return InputError("\n".join(lines))


Detail = Callable[[int], str]
"""From the number of a list to words about it."""


class Reported(Protocol):
    """Rows that can be reported."""

    @property
    def groups_source(self) -> str: ...
    @property
    def is_judgement(self) -> Array: ...
    def report(self, bad: Array, column: str, what: str, detail: Detail) -> None: ...


class ListProblems:
    """Names the first label of a list with which something is wrong."""

    def __init__(
        self, rows: Reported, offset: Ints, label: Int32s, score: Floats, decode: Callable[[Int32s], pa.Array]
    ) -> None:
        self._rows = rows
        self._offset, self._label, self._score = offset, label, score
        self._decode = decode

    def report(self, flags: Array, group: Array, expected: Array) -> None:
        """What is seen before lists are sorted."""
        if (flags & UNUSABLE).any():
            finite = np.isfinite(self._score)
            self._scores(~finite, "NaN, infinite or null {}")
            beyond = finite & (np.abs(self._score) > LARGEST)
            self._scores(beyond, f"{{}} beyond {LARGEST:g}, whose square overflows")
        source = self._rows.groups_source
        if (flags & UNGROUPED).any():
            what = f"label that is not in {source}"
            self._rows.report((flags & UNGROUPED) > 0, "label_ids", what, self._at(group < 0))
        if (flags & WRONG_GROUP).any():
            what = f"label of another group than {source} has"
            wrong = (group >= 0) & (group != np.repeat(expected, np.diff(self._offset)))
            self._rows.report((flags & WRONG_GROUP) > 0, "label_group", what, self._at(wrong))

    def report_repeated(self, flags: Array) -> None:
        """What is seen only once lists are sorted."""
        again = np.append(False, (self._label[1:] == self._label[:-1]) & (self._score[1:] == self._score[:-1]))
        self._rows.report((flags & REPEATED) > 0, "label_ids", REPEATED_LABEL, self._at(again))

    def _scores(self, wrong: Array, what: str) -> None:
        # The entry behind the last one is there for empty lists at the end.
        entries = np.append(wrong, False).astype(np.int64)
        lists = np.add.reduceat(entries, self._offset[:-1]) * np.diff(self._offset) > 0
        judged = self._rows.is_judgement
        self._rows.report(lists & ~judged, "scores", what.format("score"), self._at(wrong))
        self._rows.report(lists & judged, "grades", what.format("grade"), self._at(wrong))

    def _at(self, wrong: Array) -> Detail:
        def detail(row: int) -> str:
            inside = np.flatnonzero(wrong[self._offset[row] : self._offset[row + 1]])
            if not len(inside):
                return ""
            entry = self._offset[row] + inside[0]
            return f"label {self._decode(self._label[entry : entry + 1])[0].as_py()}"

        return detail
