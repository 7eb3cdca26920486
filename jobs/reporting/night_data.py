"""How a night went, as the report of a night shows it."""

from __future__ import annotations

from dataclasses import dataclass

from fusion.cells import Cell
from fusion.metrics import Aspect
from jobs.reporting.model import Comparison


@dataclass(frozen=True)
class WatchedChange:
    """A watched figure of a night beside that of an earlier one."""

    aspect: Aspect
    cell: Cell
    against: str
    """The earlier night."""
    before: float
    now: float
    comparison: Comparison
    paired: bool
    """Whether it was tested text by text; otherwise the two nights are samples of different texts."""
    new: int
    gone: int
    """Texts that only the night has, and that only the earlier one has."""
    fell: bool
    other_folds: int = 0
    """Texts that are compared with themselves although another fold tested them then."""


@dataclass(frozen=True)
class DataMove:
    """Something about the data that moved by more than is allowed."""

    quantity: str
    change: float
    allowed: float


QUIET = "ok"
"""The verdict without an alarm."""


@dataclass(frozen=True)
class DatasetNight:
    """What a night found about one dataset."""

    dataset: str
    verdict: str
    baseline: str | None
    changed: tuple[str, ...]
    """What differs from the baseline: data, with the inputs that changed; configuration; code."""
    evaluated: bool
    """False if nothing had changed and the figures were kept."""
    watched: tuple[WatchedChange, ...] = ()
    moved: tuple[DataMove, ...] = ()
    breaches: tuple[str, ...] = ()
    """Bounds of the data, or of the cost, that were not kept; a sentence each."""
    next_steps: tuple[str, ...] = ()
    """Where to look first, and how to make the night again."""
    other_choices: tuple[str, ...] = ()
    """Where tonight's data would choose another fusion; a sentence each."""
    uncompared: tuple[str, ...] = ()
    """What should have been compared and could not be; a sentence each."""
    tolerance: float = 0.0
    """How far a figure may fall, as a share of 1."""

    @property
    def fallen(self) -> tuple[WatchedChange, ...]:
        return tuple(change for change in self.watched if change.fell)


@dataclass(frozen=True)
class AbsentDataset:
    """A dataset without figures tonight."""

    dataset: str
    verdict: str
    path: str
    reason: str


@dataclass(frozen=True)
class NightVerdict:
    """How a night went; every page of the night begins with it."""

    run_id: str
    exit_code: int
    datasets: tuple[DatasetNight, ...]
    absent: tuple[AbsentDataset, ...] = ()
    problems: tuple[str, ...] = ()
    """What went wrong beside the verdict, which stands all the same."""
