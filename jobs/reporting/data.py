"""What a report shows, computed and ready to print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from fusion.grid import SINGLE, Cell
from fusion.metrics import Measure

Test = Literal["folds", "queries", "randomization"]
Outcome = Literal["better", "worse", "not told apart", "not tested"]


class Column(NamedTuple):
    """What is measured: a metric of the labels of one group, and which labels make the ideal ranking."""

    label_group: str
    metric: str
    k: int
    ideal: str = "all"

    @property
    def measure(self) -> Measure:
        return Measure(self.metric, self.k)


@dataclass(frozen=True)
class Comparison:
    """One cell against another. `difference`, its 95% interval and the effect size (mean difference over the standard
    deviation of differences) are over all texts; None where the results hold no such figure."""

    difference: float
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    p_folds: float | None = None
    p_queries: float | None = None
    p_randomization: float | None = None
    texts: int | None = None

    def p(self, test: Test) -> float | None:
        return {"folds": self.p_folds, "queries": self.p_queries, "randomization": self.p_randomization}[test]


@dataclass(frozen=True)
class Verdict:
    """Whether one cell is better than another, and what that rests on: with one fold on the texts alone, with more on
    folds and texts together."""

    outcome: Outcome
    folds: int
    texts: int | None = None

    @property
    def told_apart(self) -> bool:
        return self.outcome in ("better", "worse")


@dataclass(frozen=True)
class Value:
    """A cell's figure in one column, as shares of 1."""

    mean: float
    std: float | None
    """None for one fold."""
    folds: dict[int, float]
    best: bool
    """Whether this is the best of the fused cells."""
    bold: bool
    """Best, or not told from it by the deciding test."""
    against_best: Comparison | None
    """None for the best cell itself."""


@dataclass(frozen=True)
class Row:
    """The figures of a cell, or of a single retriever."""

    cell: Cell
    values: dict[Column, Value]

    @property
    def single(self) -> bool:
        return self.cell.normalization == SINGLE


@dataclass(frozen=True)
class Gain:
    """The best cell of a column beside the better single retriever."""

    column: Column
    singles: dict[str, Value]
    better_single: str
    best: Cell
    best_value: Value
    comparison: Comparison
    """The best cell against the better single retriever."""
    verdict: Verdict


@dataclass(frozen=True)
class Band:
    """A tenth of the labels by frequency, and the share of its relevant pairs (text, label) that each cell and
    single retriever ranks among its first k, by label group."""

    number: int
    """1: the rarest."""
    rarest: int
    commonest: int
    """The frequencies of its labels go from `rarest` to `commonest`."""
    labels: int
    pairs: int
    found: dict[Cell, dict[int, float]]
    """By cell and k."""


@dataclass(frozen=True)
class Agreement:
    """What the retrievers have in common in the lists of one label group, and what any fusion of them can reach."""

    label_group: str
    candidates: dict[str, float]
    """The mean length of each retriever's lists."""
    overlap: dict[tuple[str, str], float]
    """Of each pair of retrievers: common candidates over all candidates of the two."""
    found: dict[str, float]
    """The share of relevant labels that each retriever lists."""
    alone: dict[str, float]
    """The share of relevant labels that no other retriever lists."""
    union: float
    """The share of relevant labels that some retriever lists: no fusion finds more."""
    ceiling: dict[Column, float]
    """The figures of a ranking with all found relevant labels first: no fusion is better."""


@dataclass(frozen=True)
class PaperFigures:
    """The paper's table of the same dataset."""

    table: str
    values: dict[tuple[Cell, Column], tuple[float, float]]
    """Mean and standard deviation, as shares of 1."""
    rank_correlation: dict[Column, float]
    """Spearman's, over the cells whose figures in the paper can be right."""
    compared: int
    left_out: str


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
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    """Single retrievers first, then the cells in the order of the grid."""
    gains: tuple[Gain, ...]
    bands: dict[str, tuple[Band, ...]]
    """By label group; empty where the results hold no such counts."""
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


@dataclass(frozen=True)
class Report:
    """Everything a report shows."""

    title: str
    datasets: tuple[Dataset, ...]
    test: Test
    """What decides the bold face where there is more than one fold."""
    alpha: float
    version: str
