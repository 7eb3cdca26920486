"""How the fused scores of one text came about, as long as it is in memory."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from fusion.grid import Cell


@dataclass(frozen=True)
class ExplainedText:
    """One text, one cell, one label group."""

    text_id: str
    excerpt: str
    """The beginning of the text; empty where the inputs do not hold it."""
    fold: int
    folds: tuple[int, ...]
    """All folds that test the text; `fold` is the first one."""
    cell: Cell
    label_group: str
    retrievers: tuple[str, ...]
    judged: bool
    table: pa.Table
    """One row per candidate, in the fused order: rank, label_id, name, relevant, fused, and per retriever NAME_rank,
    NAME_score and NAME_normalized."""
    lists: pa.Table
    """One row per retriever: size, min, max, mean and std of its list, as the normalisation reads them."""
    missed: dict[str, str]
    """The relevant labels that no list holds, with their names, which may be empty."""
