"""A watched figure of tonight and that of an earlier night: how it changed, or why nobody can say; also in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fusion.cells import Cell
from fusion.metrics import Aspect, Metric
from fusion.statistics.gate import Change
from jobs.reporting.formats import count, interval, p_value, percent, points, watched_name

LOST, EMPTY, UNTESTED = "lost", "empty", "untested"
NEW_METRIC, NEW_GROUP, NEW_CELL, DROPPED = "new metric", "new label group", "new cell", "dropped"
"""Why a watched figure could not be compared with a night."""
WATCHED_OTHERWISE = (NEW_METRIC, NEW_GROUP, NEW_CELL, DROPPED)
"""Where the two nights do not watch the same figures."""
REASONS = {
    LOST: "the history has lost rows of {against} in its table query_figures",
    NEW_METRIC: "{against} did not watch this metric",
    NEW_GROUP: "{against} has no figures of this label group",
    NEW_CELL: "{against} has no figures of this cell or retriever",
    DROPPED: "{against} watched it, and tonight has no such figure",
    EMPTY: "no text has such a figure, tonight or in {against}",
}
SHOWN = 5
"""Figures that one line names."""


class Figure(NamedTuple):
    """A figure that must not fall: a metric over the labels of a group, of a cell or a single retriever."""

    label_group: str
    metric: str
    k: int
    normalization: str
    fusion: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Figure:
        """The figure of a row in the history."""
        return cls(**{name: row[name] for name in cls._fields})

    @property
    def aspect(self) -> Aspect:
        return Aspect(self.label_group, self.metric, self.k)

    @property
    def metric_at_k(self) -> Metric:
        return Metric(self.metric, self.k)

    @property
    def cell(self) -> Cell:
        return Cell(self.normalization, self.fusion)

    def __str__(self) -> str:
        return watched_name(self.aspect, self.cell)


@dataclass(frozen=True)
class ComparedFigure:
    """A watched figure of tonight against that of an earlier night."""

    figure: Figure
    against: str
    """The earlier night."""
    change: Change
    corrected_p: float | None = None
    """Of a figure that fell beyond the tolerance, corrected for all figures of the night; None: no alarm."""

    @property
    def fell(self) -> bool:
        return self.corrected_p is not None

    @property
    def over_texts(self) -> str:
        """The texts that the change was tested on."""
        change, texts = self.change, count(self.change.texts)
        how = f"over {texts} unchanged texts" if change.paired else f"between {texts} texts of either night"
        notes = []
        if change.new or change.gone:
            notes.append(f"{count(change.new)} are new or judged otherwise, {count(change.gone)} gone")
        if change.other_folds:
            notes.append(f"{count(change.other_folds)} in another fold than then")
        return how + (f" ({'; '.join(notes)})" if notes else "")

    @property
    def over_texts_short(self) -> str:
        """The same in a table's few words."""
        change = self.change
        unmatched = f", {count(change.new)} new or judged otherwise, {count(change.gone)} gone"
        texts = f"{count(change.texts)} {'unchanged' if change.paired else 'of either night'}"
        return texts + (unmatched if change.new or change.gone else "")

    def gain(self, digits: int) -> str:
        """The change in points, with its 95% interval."""
        ends = interval(self.change.low, self.change.high, digits)
        return points(self.change.difference, digits) + (f" {ends}" if ends else "")

    @property
    def p(self) -> str:
        return p_value(self.change.p if self.corrected_p is None else self.corrected_p)

    def __str__(self) -> str:
        """Of a figure that fell: from where to where, over how many texts, since when."""
        was, now = percent(self.change.baseline, 2), percent(self.change.tonight, 2)
        return f"{self.figure} fell from {was} ({self.against}) to {now}: {self.gain(2)} {self.over_texts}, p {self.p}"

    @property
    def lower_without_alarm(self) -> str | None:
        """Why a figure that is lower by more than the tolerance gave no alarm; None for any other figure. Too few texts
        for a test are an alarm of their own."""
        change = self.change
        if self.fell or change.untested or change.difference >= -change.tolerance:
            return None
        moved = f"{percent(change.baseline)} ({self.against}) to {percent(change.tonight)}"
        why = "the drop may be chance"
        if not change.paired:
            why = "the two means are over different texts, and the difference can be theirs"
        return f"{self.figure} went from {moved}, which is no alarm: {why} ({self.gain(1)}, {self.over_texts})"


class UncomparedFigure(NamedTuple):
    """A watched figure that could not be compared with an earlier night, and why."""

    figure: Figure
    against: str
    reason: str
    change: Change | None = None
    """Of a figure whose change could not be tested."""


def uncompared_lines(figures: Sequence[UncomparedFigure]) -> Iterator[str]:
    """What could not be compared, and why; one line per reason and night."""
    alike: dict[tuple[str, str], list[UncomparedFigure]] = {}
    for uncompared in figures:
        alike.setdefault((uncompared.reason, uncompared.against), []).append(uncompared)
    for (reason, against), group in alike.items():
        if reason == UNTESTED:
            yield from map(_untested, group)
            continue
        names = ", ".join(str(uncompared.figure) for uncompared in group[:SHOWN])
        rest = f" and {len(group) - SHOWN} more" if len(group) > SHOWN else ""
        yield f"not compared: {REASONS[reason].format(against=against)} ({names}{rest})"


def _untested(uncompared: UncomparedFigure) -> str:
    change = uncompared.change
    assert change is not None
    return (
        f"not compared: {uncompared.figure} went from {percent(change.baseline, 2)} ({uncompared.against}) to "
        f"{percent(change.tonight, 2)}, further than the tolerance of {percent(change.tolerance, 2)} points, over "
        f"{count(change.texts, 'text')}: too few for a test"
    )
