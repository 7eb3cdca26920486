"""The section of the page that shows single texts. Python writes all of it: it needs no script."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.reporting.data import Dataset
from jobs.reporting.examples import (
    SIGN,
    TITLE,
    Example,
    GroupExamples,
    example_lists,
    example_title,
    outcome_title,
    shown_examples,
)
from jobs.reporting.html import table_html
from jobs.runtime.safe_text import escape

LINK = '<a href="#examples">Single texts</a> '


def examples_section(datasets: Sequence[Dataset], left_out: bool) -> str:
    """The whole section; nothing where no dataset has examples. `left_out`: say only that there are some."""
    shown = [dataset for dataset in datasets if dataset.examples]
    if not shown:
        return ""
    note = (
        f"{SIGN} and bold: a relevant label. Labels are followed by their scores. "
        "At most ten labels of each list are shown."
    )
    parts = "".join(map(_dataset, shown))
    if left_out:
        note, parts = "Left out to keep this page small; the table examples.parquet of the results has them.", ""
    return (
        '<section id="examples" aria-labelledby="examples-title">'
        f'<h2 id="examples-title">{TITLE}</h2><p>{note}</p>{parts}</section>'
    )


def _dataset(dataset: Dataset) -> str:
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
