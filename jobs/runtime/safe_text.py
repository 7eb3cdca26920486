"""Text of others, such as names and ids, on a terminal and within files: nothing in it moves the cursor, begins a line
of its own, becomes a formula, or ends what it stands in."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any

from fusion.errors import visible


def one_line(text: str) -> str:
    """Prose on one line: its line breaks are spaces there."""
    return visible(" ".join(text.split()))


def escape(text: str) -> str:
    """Text within HTML, also within the quotes of an attribute."""
    return html.escape(visible(text, lines=True))


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns on a terminal: the first two to the left, numbers to the right."""
    lines = [[visible(word) for word in line] for line in (header, *rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    aligned = ([word.ljust if i < 2 else word.rjust for i, word in enumerate(line)] for line in lines)
    return "\n".join(
        "  ".join(align(width) for align, width in zip(line, widths, strict=True)).rstrip() for line in aligned
    )


def csv_cells(values: Iterable[Any]) -> list[Any]:
    """The cells of a line of CSV. Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    shown = (visible(value) if isinstance(value, str) else value for value in values)
    return [f"'{value}" if isinstance(value, str) and value.startswith(tuple("=+-@")) else value for value in shown]


def fenced(text: str, kind: str = "") -> str:
    """A block of Markdown, within a fence that is longer than any in the text."""
    text = visible(text, lines=True)
    longest = max((len(run) for run in re.findall("~+", text)), default=0)
    fence = "~" * max(3, longest + 1)
    return f"{fence}{kind}\n{text.rstrip(chr(10))}\n{fence}"


def code_span(text: str) -> str:
    """Text as code within a line of Markdown."""
    text = one_line(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks, space = "`" * (longest + 1), " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}"
