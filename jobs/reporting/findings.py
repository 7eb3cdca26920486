"""What a report holds about retrievers, single texts and strategies: records only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from fusion.cells import Cell
from fusion.metrics import Aspect
from jobs.reporting.model import Comparison, Value, Verdict


@dataclass(frozen=True)
class Addition:
    """A cell over some retrievers, compared with the same cell without one of them, or with the one that is left."""

    aspect: Aspect
    cell: Cell
    """Not fixed to retrievers: these are `retriever` and `others`."""
    retriever: str
    others: tuple[str, ...]
    value: float
    without: float
    comparison: Comparison


@dataclass(frozen=True)
class Contribution:
    """What a retriever adds in an aspect: to most others that it was added to, and to every subset of them."""

    to_most: Addition
    verdict: Verdict
    to_each: tuple[Addition, ...]

    @property
    def least(self) -> Addition:
        return min(self.to_each, key=lambda addition: addition.comparison.difference)

    @property
    def most(self) -> Addition:
        return max(self.to_each, key=lambda addition: addition.comparison.difference)


class ExampleLabel(NamedTuple):
    """A label in a list of an example; a relevant label that no list holds has no score."""

    label_id: str
    name: str
    """Empty where it is not known."""
    score: float | None
    relevant: bool


class ExampleList(NamedTuple):
    """The beginning of a list, best first."""

    name: str
    labels: tuple[ExampleLabel, ...]


@dataclass(frozen=True)
class Example:
    """A text that the recommended cell helps or hurts against the best single retriever."""

    aspect: Aspect
    outcome: str
    place: int
    text_id: str
    excerpt: str
    """Empty where the results do not hold it."""
    cell: Cell
    retriever: str
    value: float
    retriever_value: float
    """The figures of the text, as shares of 1."""
    lists: tuple[ExampleList, ...]
    """The fused list, those of the retrievers, and the relevant labels."""


@dataclass(frozen=True)
class Tested:
    """A strategy against another cell, over all test texts; p-values are Holm-corrected over the label group."""

    cell: Cell
    against: Cell
    comparison: Comparison
    verdict: Verdict


@dataclass(frozen=True)
class Strategy:
    """What a strategy chose for a label group, and its figures on the test texts."""

    cell: Cell
    choice: str
    """Over all folds."""
    alike: int
    """Folds that chose the same."""
    folds: int
    values: dict[Aspect, Value]


@dataclass(frozen=True)
class Optimism:
    """The objective of the fixed cell that is best on the test texts, next to that of the one that the validation texts
    chose: what the first promises too much."""

    best: str
    best_value: float
    chosen_value: float
    validation_value: float
    """Of the chosen cells, on the texts that they were chosen on."""
    texts: int
    """Validation texts per fold, on average."""


class CurvePoint(NamedTuple):
    """A strategy's gain over the fixed cell that was chosen on all validation texts, by the number of these texts: the
    mean over the folds, and their ends."""

    texts: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupStrategies:
    """Everything that was chosen and learned for a label group."""

    label_group: str
    objective: str
    aspects: tuple[Aspect, ...]
    """The decisive one first; the tests are made in that one."""
    single: Cell | None
    """The best retriever alone, by the decisive aspect."""
    single_values: dict[Aspect, Value]
    strategies: tuple[Strategy, ...]
    tests: tuple[Tested, ...]
    optimism: Optimism | None
    curve: dict[Cell, tuple[CurvePoint, ...]]

    def test(self, cell: Cell, against: Cell | None) -> Tested | None:
        """How a strategy stands against another cell."""
        return next((test for test in self.tests if (test.cell, test.against) == (cell, against)), None)
