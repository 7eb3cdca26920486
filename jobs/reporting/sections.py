"""The sections of the page that need no script."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from fusion.cells import SINGLE, Cell
from jobs.reporting.additions import ADDITIONS_TITLE, additions_table
from jobs.reporting.answer import (
    LABELS_TITLE,
    SLICE_TABLES,
    facts,
    headline,
    how_to_read,
    label_tables,
    loss_line,
    loss_lines,
    recommended_name,
    slice_table,
    standing_line,
    tie_line,
    unseen_lines,
    winners_table,
)
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.examples import (
    EXAMPLES_TITLE,
    SIGN,
    GroupExamples,
    example_lists,
    example_title,
    outcome_title,
    shown_examples,
)
from jobs.reporting.findings import Contribution, Example
from jobs.reporting.formats import cell_name, count, figure, input_count_text, measure_name, percent, points
from jobs.reporting.formats import gain as gained
from jobs.reporting.html import table_html
from jobs.reporting.model import Standing, Value
from jobs.reporting.strategies import (
    STRATEGIES_TITLE,
    band_tables,
    curve_lines,
    optimism_lines,
    pair_table,
    strategy_table,
)
from jobs.reporting.tables import distinct_rows, gain_table, grid_tables, warnings
from jobs.storage.folders import escape

SIGNS = {
    "better": "\N{BLACK UP-POINTING TRIANGLE}",
    "worse": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "not told apart": "\N{ALMOST EQUAL TO}",
    "tests disagree": "\N{PLUS-MINUS SIGN}",
}
LOSSES_SHOWN = 2
"""Losses that a card tells; the table below has all."""


def answer(dataset: DatasetReport) -> str:
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


def _card(standing: Standing, dataset: DatasetReport) -> str:
    group = standing.aspect.label_group
    sides = {standing.cell: standing.value}
    if standing.best != standing.cell:
        sides[standing.best] = standing.best_value
    sides |= {Cell(SINGLE, name): value for name, value in standing.singles.items()}
    texts = count(dataset.texts.get(group, 0), "text")
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


def losses(dataset: DatasetReport) -> str:
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


def labels(dataset: DatasetReport) -> str:
    """The labels most helped and most hurt, one table per label group and retriever; the first one open."""
    parts: list[str] = []
    for title, table in label_tables(dataset):
        state = "" if parts else " open"
        parts.append(f"<details{state}><summary>{escape(title)}</summary>{table_html(table, dataset.name)}</details>")
    return (
        f"<article><h3>{escape(dataset.name)}: {LABELS_TITLE.lower()}</h3>{''.join(parts)}</article>" if parts else ""
    )


def tables(report: Report, dataset: DatasetReport) -> str:
    """Every figure, for readers without a script."""
    rows = distinct_rows(dataset)
    grids = [table_html(table, dataset.name) for table in grid_tables(report, dataset, rows)]
    gains = [table_html(gain_table(report, dataset), dataset.name)] if dataset.gains else []
    return f"<h3>{escape(dataset.name)}</h3>" + "".join([*grids, *gains])


def reading(report: Report) -> str:
    items = how_to_read(report).items()
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{escape(text)}</dd>" for name, text in items) + "</dl>"


def run_card(dataset: DatasetReport) -> str:
    """Where the figures come from."""
    facts = {
        "metrics from": "<br>".join(map(escape, dataset.result.sources)),
        "evaluated (UTC)": escape(dataset.result.evaluated),
        "code": escape(dataset.result.version),
        "folds": ", ".join(map(str, dataset.folds)),
        "texts that count": ", ".join(f"{escape(group)} {count(texts)}" for group, texts in dataset.texts.items()),
    }
    facts |= {escape(input_count_text(key)): count(number) for key, number in dataset.result.input_counts.items()}
    pairs = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in facts.items())
    warned = "".join(f' <span class="warning">\N{WARNING SIGN} {escape(text)}</span>' for text in warnings(dataset))
    config = f'<details><summary>Configuration</summary><pre tabindex="0">{escape(dataset.config)}</pre></details>'
    return f'<article class="card"><h3>{escape(dataset.name)}{warned}</h3><dl>{pairs}</dl>{config}</article>'


EXAMPLES_LINK = '<a href="#examples">Single texts</a> '


def examples_section(datasets: Sequence[DatasetReport], left_out: bool) -> str:
    """The whole section; nothing where no dataset has examples. `left_out`: say only that there are some."""
    shown = [dataset for dataset in datasets if dataset.examples]
    if not shown:
        return ""
    note = (
        f"{SIGN} and bold: a relevant label. Labels are followed by their scores. "
        "At most ten labels of each list are shown."
    )
    parts = "".join(map(_examples_of, shown))
    if left_out:
        note, parts = "Left out to keep this page small; the table examples.parquet of the results has them.", ""
    return (
        '<section id="examples" aria-labelledby="examples-title">'
        f'<h2 id="examples-title">{EXAMPLES_TITLE}</h2><p>{note}</p>{parts}</section>'
    )


def _examples_of(dataset: DatasetReport) -> str:
    groups = "".join(_group(group, dataset.name) for group in shown_examples(dataset))
    return f"<article><h3>{escape(dataset.name)}</h3>{groups}</article>"


def _group(group: GroupExamples, dataset: str) -> str:
    columns = "".join(
        f"<div><h5>{outcome_title(outcome)}</h5>"
        + ("".join(_text(example, dataset) for example in examples) or "<p>No text.</p>")
        + "</div>"
        for outcome, examples in group.by_outcome.items()
    )
    return f'<h4>{escape(group.heading)}</h4><div class="outcomes">{columns}</div>'


def _text(example: Example, dataset: str) -> str:
    excerpt = f"<blockquote>{escape(example.excerpt)}</blockquote>" if example.excerpt else ""
    lists = table_html(example_lists(example), dataset)
    return f"<details><summary>{escape(example_title(example))}</summary>{excerpt}{lists}</details>"


STRATEGIES_LINK = f'<a href="#strategies">{STRATEGIES_TITLE}</a> '
CURVE = (
    '<figure id="curve" class="scripted"><figcaption><h3>When does it pay?</h3><p>What a strategy gains over the fixed '
    "cell that was chosen on all validation texts, by the number of validation texts per fold that it may see: the "
    "mean over the folds, with bars from the lowest to the highest fold.</p></figcaption>"
    '<div class="controls"></div><div class="plot"></div></figure>'
)


def strategies_section(datasets: Sequence[DatasetReport]) -> str:
    """What was chosen and learned on validation texts, with the learning curve below."""
    shown = [dataset for dataset in datasets if dataset.strategies]
    if not shown:
        return ""
    curve = CURVE if any(group.curve for dataset in shown for group in dataset.strategies) else ""
    return (
        '<section id="strategies" aria-labelledby="strategies-title">'
        f'<h2 id="strategies-title">{STRATEGIES_TITLE}</h2>{"".join(map(_strategies_of, shown))}{curve}</section>'
    )


def _strategies_of(dataset: DatasetReport) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in [*optimism_lines(dataset), *curve_lines(dataset)])
    pairs = pair_table(dataset)
    folded = {"Every two of them": [pairs] if pairs else [], "By label frequency": list(band_tables(dataset))}
    details = "".join(
        f"<details><summary>{title}</summary>{''.join(table_html(table, dataset.name) for table in tables)}</details>"
        for title, tables in folded.items()
        if tables
    )
    return (
        f"<article><h3>{escape(dataset.name)}</h3>{table_html(strategy_table(dataset), dataset.name)}"
        f'<ul class="notes">{lines}</ul>{details}</article>'
    )


ADDITIONS_LINK = '<a href="#additions">What each adds</a> '
LINE, MIDDLE = 26, 13
"""The height of a line in pixels, and where its interval is drawn."""
STEPS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Between two ticks, as shares of 1."""


def additions_section(datasets: tuple[DatasetReport, ...]) -> str:
    """The section of the page; nothing where no cell was evaluated over several subsets of the retrievers."""
    articles = "".join(_article(dataset) for dataset in datasets if dataset.additions)
    if not articles:
        return ""
    return (
        f'<section id="additions" aria-labelledby="additions-title"><h2 id="additions-title">{ADDITIONS_TITLE}</h2>'
        "<p>The cell over all retrievers less the same cell without one of them, in points, with the 95% interval over "
        "the texts. Filled: told apart; hollow: not told apart, or not tested. Strokes: what it adds to every other "
        f"subset of the retrievers.</p>{articles}</section>"
    )


def _article(dataset: DatasetReport) -> str:
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
