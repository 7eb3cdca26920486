"""Everything that a report shows about a dataset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.cells import Cell
from jobs.reporting.model import (
    Agreement,
    Aspect,
    Band,
    Comparison,
    Gain,
    LabelChange,
    PaperFigures,
    Ranking,
    Recommendation,
    Row,
)
from jobs.settings.sections import Test

if TYPE_CHECKING:
    from jobs.reporting.findings import Contribution, Example, GroupStrategies
    from jobs.reporting.night_data import NightVerdict


@dataclass(frozen=True)
class Dataset:
    """The results of one dataset."""

    name: str
    test: Test
    """What decides the bold face here: as set, but with one fold a test over texts."""
    folds: tuple[int, ...]
    missing_folds: tuple[int, ...]
    queries: dict[str, int]
    """Texts that count, by label group."""
    aspects: tuple[Aspect, ...]
    rows: tuple[Row, ...]
    """Single retrievers first, then the cells in the order of the grid."""
    gains: tuple[Gain, ...]
    recommendation: Recommendation | None
    """None without a fused cell, and on a night with an alarm."""
    bands: dict[str, tuple[Band, ...]]
    """By label group; empty where the results hold no such counts."""
    unseen: dict[str, Band] | None
    """By label group, the pairs whose label has no training text; None where training texts are not known."""
    pairs: dict[Aspect, dict[tuple[Cell, Cell], Comparison]]
    """Every two distinct results, compared over all texts."""
    rankings: tuple[Ranking, ...]
    agreement: tuple[Agreement, ...]
    paper: PaperFigures | None
    input_counts: dict[str, int]
    sources: tuple[str, ...]
    """Where the metrics were read."""
    evaluated: str
    """When the metrics were written (UTC)."""
    version: str
    """Of the code that made them."""
    config: str
    """The resolved configuration, as YAML."""
    examples: tuple[Example, ...] = ()
    """By label group, those most helped first."""
    labels: tuple[LabelChange, ...] = ()
    """By label group and retriever, those most helped first."""
    strategies: tuple[GroupStrategies, ...] = ()
    """By label group, what was chosen and learned on validation texts; none where nothing was."""
    notes: tuple[str, ...] = ()
    """What else a reader should know: on which texts choices were made."""
    additions: tuple[Contribution, ...] = ()
    """By label group, what each retriever adds to the others, where a cell was evaluated over several subsets."""
    look_at: str = ""
    """On a night with an alarm, what to look at: it stands in place of a recommendation."""


@dataclass(frozen=True)
class Report:
    """Everything a report shows."""

    title: str
    datasets: tuple[Dataset, ...]
    test: Test
    """What decides the bold face where there is more than one fold."""
    alpha: float
    version: str
    night: NightVerdict | None = None
    """Of the night that the report belongs to."""
