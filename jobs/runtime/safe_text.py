"""Text of others within files that programs read: nothing in it becomes a formula, or ends what it stands in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any


def csv_cells(values: Iterable[Any]) -> list[Any]:
    """The cells of a line of CSV. Text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return [
        f"'{value}" if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")) else value for value in values
    ]


def fenced(text: str, kind: str = "") -> str:
    """A block of Markdown, within a fence that is longer than any in the text."""
    longest = max((len(run) for run in re.findall("~+", text)), default=0)
    fence = "~" * max(3, longest + 1)
    return f"{fence}{kind}\n{text.rstrip(chr(10))}\n{fence}"


def code_span(text: str) -> str:
    """Text as code within a line of Markdown."""
    text = " ".join(text.split())
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks, space = "`" * (longest + 1), " " if "`" in text else ""
    return f"{ticks}{space}{text}{space}{ticks}"
