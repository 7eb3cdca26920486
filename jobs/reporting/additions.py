"""What each retriever adds to the others: the recommended cell with it and without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from jobs.reporting.dataset import DatasetReport
from jobs.reporting.findings import Addition, Contribution
from jobs.reporting.formats import cell_name, full_metric_name, joined, p_value, percent, points, verdict
from jobs.reporting.formats import gain as gained
from jobs.reporting.parts import Entry, Interval, Intervals, Table

ADDITIONS_TITLE = "What each retriever adds to the others"
ADDITIONS_READING = (
    "The cell over all retrievers less the same cell without one of them, in points, with the 95% interval over the "
    "texts. Filled: significantly different; hollow: not, or not tested. Strokes: what it adds to every other subset "
    "of the retrievers."
)
STEPS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Between two ticks, as shares of 1."""


def additions_table(dataset: DatasetReport) -> Table:
    """One line per label group and retriever."""
    blocks: list[list[list[Entry]]] = []
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        lines = []
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        names = [one.to_most.retriever for one in mine]
        for one in mine:
            aspect, added = one.to_most.aspect, one.to_most.comparison
            words = [group, full_metric_name(aspect), one.to_most.retriever, _others(one.to_most, names)]
            words += [percent(one.to_most.without), percent(one.to_most.value), gained(added)]
            words += [p_value(added.p_folds), p_value(added.p_queries), verdict(one.verdict)]
            words += [_extreme(one.least, names), _extreme(one.most, names)]
            lines.append([*map(Entry, words)])
        blocks.append(lines)
    heads = ("labels", "metric", "retriever", "added to", "without it", "with it", "adds", "p folds", "p texts")
    cells = dict.fromkeys(cell_name(one.to_most.cell) for one in dataset.additions)
    return Table(
        "additions",
        f"{dataset.name}. {joined(list(cells))} over all retrievers and without one of them, in percent; "
        "what the one adds, in points, with its 95% interval over the texts. p is Holm-corrected over the retrievers. "
        "Least and most: over every subset of the others that was evaluated.",
        [(name,) for name in (*heads, "verdict", "least, added to", "most, added to")],
        "llllrrrrrlll",
        blocks,
    )


def _others(addition: Addition, retrievers: Sequence[str]) -> str:
    """Those that it was added to, of all retrievers; where that is shorter, those that are left out."""
    names = list(addition.others)
    left_out = [name for name in retrievers if name != addition.retriever and name not in names]
    if len(names) <= max(2, len(left_out)):
        return joined(names)
    return f"all others but {joined(left_out)}" if left_out else f"all {len(names)} others"


def _extreme(addition: Addition, retrievers: Sequence[str]) -> str:
    return f"{points(addition.comparison.difference)}, {_others(addition, retrievers)}"


def addition_lines(dataset: DatasetReport) -> list[str]:
    """A sentence per label group."""
    lines = []
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        told = "; ".join(
            f"{one.to_most.retriever} adds {gained(one.to_most.comparison)} ({one.verdict.outcome})" for one in mine
        )
        first = mine[0].to_most
        lines.append(
            f"{group} labels, {full_metric_name(first.aspect)} of {cell_name(first.cell)}, to all others: {told}."
        )
    return lines


def drawings(dataset: DatasetReport) -> Iterator[Intervals]:
    """A drawing per label group, with a line per retriever."""
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        first = mine[0].to_most
        low, high = _range(mine)
        title = f"{group} labels, {full_metric_name(first.aspect)} of {cell_name(first.cell)}"
        place = partial(_place, low, high)
        ticks = [(place(tick), _tick(tick, high - low)) for tick in _ticks(low, high)]
        yield Intervals(title, [_interval(one, place) for one in mine], place(0), ticks)


def _place(low: float, high: float, share: float) -> float:
    return 100 * (share - low) / (high - low)


def _interval(one: Contribution, place: Callable[[float], float]) -> Interval:
    added = one.to_most.comparison
    ends = None if added.low is None or added.high is None else (place(added.low), place(added.high))
    return Interval(
        name=one.to_most.retriever,
        words=f"{gained(added)}, {one.verdict.outcome}",
        middle=place(added.difference),
        ends=ends,
        strokes=[place(other.comparison.difference) for other in one.to_each],
        filled=one.verdict.significant,
    )


def _tick(share: float, width: float) -> str:
    """A tick in points, with the decimals that distinguish it from the next."""
    return points(share, 2 if width < 0.006 else 1 if width < 0.06 else 0) if share else "0"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from end to end, at most seven."""
    step = next(step for step in STEPS if (high - low) / step <= 6)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _range(contributions: Sequence[Contribution]) -> tuple[float, float]:
    """From the least to the greatest figure, with zero and some room."""
    figures = [0.0]
    for one in contributions:
        added = one.to_most.comparison
        figures += [end for end in (added.low, added.high) if end is not None]
        figures += [other.comparison.difference for other in one.to_each]
    room = 0.05 * (max(figures) - min(figures)) or 0.01
    return min(figures) - room, max(figures) + room
