"""What is wrong with ranked lists, in words that name the label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import pyarrow as pa

from fusion.kernel.list_checks import LARGEST, REPEATED, UNGROUPED, UNUSABLE, WRONG_GROUP
from fusion.types import Array, Floats, Int32s, Ints

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
        if not (flags & REPEATED).any():
            return
        again = np.append(False, (self._label[1:] == self._label[:-1]) & (self._score[1:] == self._score[:-1]))
        self._rows.report((flags & REPEATED) > 0, "label_ids", "the same label twice in a list", self._at(again))

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
