"""The parts of the page that Python writes: the answer, where it loses, plain tables, how to read it, what was run."""

from __future__ import annotations

import math

from fusion.grid import SINGLE, Cell
from jobs.reporting.answer import (
    SLICE_TABLES,
    facts,
    headline,
    loss_line,
    loss_lines,
    recommended_name,
    slice_table,
    standing_line,
    tie_line,
    winners_table,
)
from jobs.reporting.data import Dataset, Report, Standing, Value
from jobs.reporting.formats import cell_name, count, figure, input_count_text, measure_name, percent
from jobs.reporting.html import table_html
from jobs.reporting.labels import TITLE, label_tables, unseen_lines
from jobs.reporting.reading import how_to_read
from jobs.reporting.summary_tables import gain_table
from jobs.reporting.tables import distinct_rows, grid_tables, warnings
from jobs.runtime.safe_text import escape

SIGNS = {
    "better": "\N{BLACK UP-POINTING TRIANGLE}",
    "worse": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "not told apart": "\N{ALMOST EQUAL TO}",
    "tests disagree": "\N{PLUS-MINUS SIGN}",
}
LOSSES_SHOWN = 2
"""Losses that a card tells; the table below has all."""


def answer(dataset: Dataset) -> str:
    """One sentence, what it is about, and a card per label group."""
    warned = "".join(f'<p class="warning">\N{WARNING SIGN} {escape(text)}</p>' for text in warnings(dataset))
    recommendation = dataset.recommendation
    cards = "".join(_card(standing, dataset) for standing in recommendation.standings) if recommendation else ""
    winners = winners_table(dataset)
    table = (
        f"<details><summary>The winner in each aspect</summary>{table_html(winners, dataset.name)}</details>"
        if winners
        else ""
    )
    return (
        f'<article class="answer"><p class="eyebrow">{escape(facts(dataset))}</p>'
        f'<h2 class="lead">{escape(headline(dataset))}</h2>{warned}'
        f'<div class="standings">{cards}</div>{table}</article>'
    )


def _card(standing: Standing, dataset: Dataset) -> str:
    group = standing.aspect.label_group
    sides = {standing.cell: standing.value}
    if standing.best != standing.cell:
        sides[standing.best] = standing.best_value
    sides |= {Cell(SINGLE, name): value for name, value in standing.singles.items()}
    texts = count(dataset.queries.get(group, 0), "text")
    outcome = standing.verdict.outcome if standing.verdict else "not tested"
    sign = SIGNS.get(outcome, "")
    losses = sorted(standing.losses, key=lambda loss: loss.share - loss.of_single)
    lines = [f'<p class="loses">Loses to {escape(loss_line(loss, standing))}</p>' for loss in losses[:LOSSES_SHOWN]]
    if len(losses) > LOSSES_SHOWN:
        more = count(len(losses) - LOSSES_SHOWN, "more loss").replace("losss", "losses")
        lines.append(f'<p class="loses"><a href="#losses">{more}</a></p>')
    choice = f'<p class="small">The model file holds {escape(standing.choice)}</p>' if standing.choice else ""
    return (
        '<div class="card">'
        f"<h3>{escape(group)} labels <small>{measure_name(standing.aspect)}, {texts}</small></h3>"
        f"{_bars(sides, standing.cell)}{choice}"
        f'<p><span class="verdict {outcome.replace(" ", "-")}" aria-hidden="true">{sign}</span> '
        f"{escape(standing_line(standing))}</p>"
        f'<p class="small">{escape(tie_line(dataset, standing))}</p>{"".join(lines)}</div>'
    )


def scale(means: list[float]) -> tuple[float, float]:
    """Where bars start and end. They start above zero where their differences would not be seen otherwise."""
    low, high = min(means), max(means)
    if high - low >= 0.25 * high:
        return 0.0, max(high, 0.01)
    step = 0.05 if high - low > 0.04 else 0.01
    start = math.floor(max(low - 0.6 * (high - low), 0) / step) * step
    return start, math.ceil(high / step) * step


def _bars(sides: dict[Cell, Value], chosen: Cell) -> str:
    start, end = scale([value.mean for value in sides.values()])
    lines = []
    for cell, value in sides.items():
        width = 100 * (value.mean - start) / (end - start)
        name = escape(cell_name(cell))
        lines.append(
            f'<tr class="{"chosen" if cell == chosen else "side"}"><th scope="row">{name}</th>'
            f'<td class="meter" aria-hidden="true"><i style="width:{width:.1f}%"></i></td><td>{figure(value)}</td></tr>'
        )
    ends = f"<span>{percent(start, 0)}</span><span>{percent(end, 0)}%</span>"
    axis = f'<tr class="axis" aria-hidden="true"><td></td><td><div>{ends}</div></td><td></td></tr>'
    if start:
        axis += f'<tr class="axis"><td></td><td colspan="2">bars start at {percent(start, 0)}%, not at 0</td></tr>'
    return f'<table class="sides"><tbody>{"".join(lines)}{axis}</tbody></table>'


def losses(dataset: Dataset) -> str:
    """Where the recommended cell loses, in words, and every tested slice as tables."""
    if dataset.recommendation is None:
        return ""
    name = escape(recommended_name(dataset.recommendation))
    lines = "".join(f"<li>{escape(line)}</li>" for line in [*loss_lines(dataset), *unseen_lines(dataset)])
    shown = f"<ul>{lines}</ul>" if lines else "<p>These results hold no figures by label frequency or by text.</p>"
    tables = []
    for standing in dataset.recommendation.standings:
        for by in SLICE_TABLES:
            table = slice_table(dataset, standing, by)
            tables += [table_html(table, dataset.name)] if table else []
    every = f"<details><summary>Every slice, with its test</summary>{''.join(tables)}</details>" if tables else ""
    return f"<article><h3>{escape(dataset.name)}: {name} beside each retriever alone</h3>{shown}{every}</article>"


def labels(dataset: Dataset) -> str:
    """The labels most helped and most hurt, one table per label group and retriever; the first one open."""
    parts: list[str] = []
    for title, table in label_tables(dataset):
        state = "" if parts else " open"
        parts.append(f"<details{state}><summary>{escape(title)}</summary>{table_html(table, dataset.name)}</details>")
    return f"<article><h3>{escape(dataset.name)}: {TITLE.lower()}</h3>{''.join(parts)}</article>" if parts else ""


def tables(report: Report, dataset: Dataset) -> str:
    """Every figure, for readers without a script."""
    rows = distinct_rows(dataset)
    grids = [table_html(table, dataset.name) for table in grid_tables(report, dataset, rows)]
    gains = [table_html(gain_table(report, dataset), dataset.name)] if dataset.gains else []
    return f"<h3>{escape(dataset.name)}</h3>" + "".join([*grids, *gains])


def reading(report: Report) -> str:
    items = how_to_read(report).items()
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in items) + "</dl>"


def run_card(dataset: Dataset) -> str:
    """Where the figures come from."""
    facts = {
        "metrics from": "<br>".join(map(escape, dataset.sources)),
        "evaluated (UTC)": escape(dataset.evaluated),
        "code": escape(dataset.version),
        "folds": ", ".join(map(str, dataset.folds)),
        "texts that count": ", ".join(f"{escape(group)} {count(texts)}" for group, texts in dataset.queries.items()),
    }
    facts |= {escape(input_count_text(key)): count(number) for key, number in dataset.input_counts.items()}
    pairs = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items())
    warned = "".join(f' <span class="warning">\N{WARNING SIGN} {escape(text)}</span>' for text in warnings(dataset))
    config = f'<details><summary>Configuration</summary><pre tabindex="0">{escape(dataset.config)}</pre></details>'
    return f'<article class="card"><h3>{escape(dataset.name)}{warned}</h3><dl>{pairs}</dl>{config}</article>'
