"""What each retriever adds to the others, on the page: a drawing that needs no script, and the table."""

from __future__ import annotations

import math
from collections.abc import Callable

from jobs.reporting.additions import TITLE, Contribution, additions_table
from jobs.reporting.data import Dataset
from jobs.reporting.formats import cell_name, measure_name, points
from jobs.reporting.formats import gain as gained
from jobs.reporting.html import table_html
from jobs.runtime.safe_text import escape

LINK = '<a href="#additions">What each adds</a> '
LINE, MIDDLE = 26, 13
"""The height of a line in pixels, and where its interval is drawn."""
STEPS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Between two ticks, as shares of 1."""


def additions_section(datasets: tuple[Dataset, ...]) -> str:
    """The section of the page; nothing where no cell was evaluated over several subsets of the retrievers."""
    articles = "".join(_article(dataset) for dataset in datasets if dataset.additions)
    if not articles:
        return ""
    return (
        f'<section id="additions" aria-labelledby="additions-title"><h2 id="additions-title">{TITLE}</h2>'
        "<p>The cell over all retrievers less the same cell without one of them, in points, with the 95% interval over "
        "the texts. Filled: told apart; hollow: not told apart, or not tested. Strokes: what it adds to every other "
        f"subset of the retrievers.</p>{articles}</section>"
    )


def _article(dataset: Dataset) -> str:
    parts = []
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        first = mine[0].to_most
        heading = f"{group} labels, {measure_name(first.aspect)} of {cell_name(first.cell)}"
        parts.append(f"<figure><figcaption><h4>{escape(heading)}</h4></figcaption>{_drawing(mine)}</figure>")
    table = table_html(additions_table(dataset), dataset.name)
    every = f"<details><summary>As a table</summary>{table}</details>"
    return f"<article><h3>{escape(dataset.name)}</h3>{''.join(parts)}{every}</article>"


def _drawing(contributions: list[Contribution]) -> str:
    """A line per retriever: its name, the interval with the strokes, and the figures in words. Places are shares of the
    width, so that it fits any page without a script."""
    low, high = _range(contributions)

    def x(share: float) -> str:
        return f"{100 * (share - low) / (high - low):.1f}%"

    lines = [_line(one, x) for one in contributions]
    ticks = "".join(f'<text x="{x(tick)}" y="12">{_tick(tick, high - low)}</text>' for tick in _ticks(low, high))
    return f'<ul class="added">{"".join(lines)}<li aria-hidden="true">{_svg(ticks)}</li></ul>'


def _line(one: Contribution, x: Callable[[float], str]) -> str:
    added = one.to_most.comparison
    marks = [_upright(x(0), 0, LINE, 0.6)]
    marks += [_upright(x(other.comparison.difference), MIDDLE - 7, MIDDLE + 7, 0.3) for other in one.to_each]
    if added.low is not None and added.high is not None:
        ends = f'x1="{x(added.low)}" x2="{x(added.high)}" y1="{MIDDLE}" y2="{MIDDLE}"'
        marks.append(f'<line {ends} stroke-width="2"/>')
    fill = "currentColor" if one.verdict.told_apart else "var(--panel)"
    marks.append(f'<circle cx="{x(added.difference)}" cy="{MIDDLE}" r="5" stroke-width="2" fill="{fill}"/>')
    words = f"{gained(added)}, {one.verdict.outcome}"
    return f"<li><b>{escape(one.to_most.retriever)}</b>{_svg(''.join(marks))}<span>{escape(words)}</span></li>"


def _upright(at: str, top: int, bottom: int, opacity: float) -> str:
    return f'<line x1="{at}" x2="{at}" y1="{top}" y2="{bottom}" stroke-opacity="{opacity}"/>'


def _svg(marks: str) -> str:
    return f'<svg height="{LINE}" aria-hidden="true">{marks}</svg>'


def _tick(share: float, width: float) -> str:
    """A tick in points, with the decimals that tell it from the next."""
    return points(share, 2 if width < 0.006 else 1 if width < 0.06 else 0) if share else "0"


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from end to end, at most seven."""
    step = next(step for step in STEPS if (high - low) / step <= 6)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _range(contributions: list[Contribution]) -> tuple[float, float]:
    """From the least to the greatest figure, with zero and some room."""
    figures = [0.0]
    for one in contributions:
        added = one.to_most.comparison
        figures += [end for end in (added.low, added.high) if end is not None]
        figures += [other.comparison.difference for other in one.to_each]
    room = 0.05 * (max(figures) - min(figures)) or 0.01
    return min(figures) - room, max(figures) + room
