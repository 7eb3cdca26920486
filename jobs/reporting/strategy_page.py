"""The section of the page about strategies; results without any do not have it."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.reporting.data import Dataset
from jobs.reporting.html import table_html
from jobs.reporting.strategy_tables import (
    TITLE,
    band_tables,
    curve_lines,
    optimism_lines,
    pair_table,
    strategy_table,
)
from jobs.runtime.safe_text import escape

LINK = f'<a href="#strategies">{TITLE}</a> '
CURVE = (
    '<figure id="curve" class="scripted"><figcaption><h3>When does it pay?</h3><p>What a strategy gains over the fixed '
    "cell that was chosen on all validation texts, by the number of validation texts per fold that it may see: the "
    "mean over the folds, with bars from the lowest to the highest fold.</p></figcaption>"
    '<div class="controls"></div><div class="plot"></div></figure>'
)


def strategies_section(datasets: Sequence[Dataset]) -> str:
    """What was chosen and learned on validation texts, with the learning curve below."""
    shown = [dataset for dataset in datasets if dataset.strategies]
    if not shown:
        return ""
    curve = CURVE if any(group.curve for dataset in shown for group in dataset.strategies) else ""
    return (
        '<section id="strategies" aria-labelledby="strategies-title">'
        f'<h2 id="strategies-title">{TITLE}</h2>{"".join(map(_dataset, shown))}{curve}</section>'
    )


def _dataset(dataset: Dataset) -> str:
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
