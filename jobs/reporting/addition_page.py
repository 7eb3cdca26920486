"""What each retriever adds to the others, on the page: a drawing that needs no script, and the table."""

from __future__ import annotations

import math
from html import escape

from jobs.reporting.additions import TITLE, Contribution, additions_table
from jobs.reporting.data import Dataset
from jobs.reporting.formats import cell_name, count, joined, measure_name, points
from jobs.reporting.formats import gain as gained
from jobs.reporting.html import table_html

LINK = '<a href="#additions">What each adds</a> '
NAMES, PLOT, WORDS, LINE = 150, 380, 290, 26
"""Widths of the drawing's parts, and the height of a line."""
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
        parts.append(f"<figure><figcaption><h4>{escape(heading)}</h4></figcaption>{_drawing(mine, heading)}</figure>")
    table = table_html(additions_table(dataset), dataset.name)
    every = f"<details><summary>As a table</summary>{table}</details>"
    return f"<article><h3>{escape(dataset.name)}</h3>{''.join(parts)}{every}</article>"


def _drawing(contributions: list[Contribution], heading: str) -> str:
    """A line per retriever: its name, the interval with the strokes, and the figures in words."""
    low, high = _range(contributions)

    def x(share: float) -> float:
        return NAMES + PLOT * (share - low) / (high - low)

    bottom = LINE * len(contributions) + 8
    height = bottom + 18
    marks = [f'<line x1="{x(0):.1f}" x2="{x(0):.1f}" y1="0" y2="{bottom}" stroke="currentColor" stroke-opacity=".6"/>']
    for tick in _ticks(low, high):
        place = f'x="{x(tick):.1f}" y="{bottom + 13}"'
        marks.append(f'<text {place} text-anchor="middle" font-size="11">{points(tick, _digits(high - low))}</text>')
    for number, one in enumerate(contributions):
        y, added = LINE * (number + 0.5) + 4, one.to_most.comparison
        marks.append(f'<text x="{NAMES - 10}" y="{y + 4}" text-anchor="end">{escape(one.to_most.retriever)}</text>')
        for other in one.to_each:
            at = x(other.comparison.difference)
            ends = f'x1="{at:.1f}" x2="{at:.1f}" y1="{y - 7}" y2="{y + 7}"'
            marks.append(f'<line {ends} stroke="currentColor" stroke-opacity=".3"/>')
        if added.low is not None and added.high is not None:
            ends = f'x1="{x(added.low):.1f}" x2="{x(added.high):.1f}"'
            marks.append(f'<line {ends} y1="{y}" y2="{y}" stroke="currentColor" stroke-width="2"/>')
        fill = "currentColor" if one.verdict.told_apart else "var(--ground, Canvas)"
        place = f'cx="{x(added.difference):.1f}" cy="{y}" r="5"'
        marks.append(f'<circle {place} stroke="currentColor" stroke-width="2" fill="{fill}"/>')
        words = f"{gained(added)}, {one.verdict.outcome}"
        marks.append(f'<text x="{NAMES + PLOT + 12}" y="{y + 4}">{escape(words)}</text>')
    told = joined([f"{one.to_most.retriever} {gained(one.to_most.comparison)}" for one in contributions])
    said = escape(f"{heading}, {count(len(contributions), 'retriever')}: {told}")
    width = NAMES + PLOT + WORDS
    # Wider than a phone: the box scrolls.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{said}">'
        f'<svg class="additions" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{said}" font-size="13" fill="currentColor">{"".join(marks)}</svg></div>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from end to end, at most nine."""
    step = next(step for step in STEPS if (high - low) / step <= 8)
    return [step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _digits(width: float) -> int:
    """Decimals of points that tell the ticks apart."""
    return 2 if width < 0.008 else 1 if width < 0.08 else 0


def _range(contributions: list[Contribution]) -> tuple[float, float]:
    """From the least to the greatest figure, with zero and some room."""
    figures = [0.0]
    for one in contributions:
        added = one.to_most.comparison
        figures += [end for end in (added.low, added.high) if end is not None]
        figures += [other.comparison.difference for other in one.to_each]
    room = 0.05 * (max(figures) - min(figures)) or 0.01
    return min(figures) - room, max(figures) + room
