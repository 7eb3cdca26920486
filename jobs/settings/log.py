"""What jobs say about their work, and where."""

from __future__ import annotations

from typing import Literal

from jobs.settings import Section


class LogSettings(Section):
    """The terminal's lines, and a file of lines for programs."""

    format: Literal["text", "keyvalue"] = "text"
    """On standard error: sentences for people, or key=value pairs."""
    file: str | None = None
    """Gets key=value lines, whatever the terminal shows. What is there is kept."""
