"""The result of an evaluation, as long as it is in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass
class Result:
    """The metrics (one row per figure), counts about the input, and the tables beside them."""

    metrics: pa.Table
    input_counts: dict[str, int]
    """By the keys of `udfs.input_counts`."""
    details: dict[str, pa.Table] = field(default_factory=dict)
    """The tables for the report, by name; empty if not asked for."""
    queries: Any = None
    """Every text's figures, if asked for: a table of the engine's kind."""
    engine: str = ""
    model: str | None = None
    """The text of the model file, where fusions were tuned."""
    notes: list[str] = field(default_factory=list)
    """What readers of the figures should know."""
