"""Settings of job `nightly`, its gate and its alerts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator

from fusion.cells import Cell
from fusion.errors import ConfigError, unknown_name
from fusion.labels import ALL
from fusion.metrics import Measure, label_measures, parse_measures
from fusion.models.strategies import STRATEGIES
from jobs.settings.base import Secret, Section, checked_name, parse_cell


class AlertSettings(Section):
    """Where the outcome of a night goes."""

    when: Literal["alarm", "always"] = "alarm"
    webhook: Secret | None = None
    apprise: list[Secret] = Field(default_factory=list)
    junit: str | None = None

    @field_validator("apprise", mode="before")
    @classmethod
    def _one(cls, urls: object) -> object:
        """A single address stands for a list of one; it may hold commas, so it is not split."""
        return [urls] if isinstance(urls, str) else urls


STRATEGY_NAMES = {str(cell): cell for cell in STRATEGIES}
TEXTS, LABELS, PAIRS, UNLABELLED = "texts", "labels", "pairs", "texts_without_labels"
GONE, NEW = "gone_texts", "new_texts"
LISTS, EMPTY, AGE = "lists", "empty_rows", "age"
QUANTITIES = (TEXTS, LABELS, PAIRS, UNLABELLED, GONE, NEW, LISTS, EMPTY, AGE)
"""What is counted about the data of a night."""
PER_INPUT = (LISTS, EMPTY, AGE)
"""What is counted about every input, as in `lists:bm25`."""


class WatchSettings(Section):
    """The figures that must not fall."""

    cells: list[str] = Field(default_factory=lambda: ["zmuv+combmnz"], min_length=1)
    retrievers: bool = True
    metrics: list[str] = Field(default_factory=lambda: ["ndcg@10", "precision@1"], min_length=1)
    label_groups: Literal["auto"] | Annotated[list[str], Field(min_length=1)] = "auto"

    def groups(self, known: set[str]) -> list[str]:
        """The label groups to watch of those that there are; all labels together if it is none of them."""
        wanted = known - {ALL} if self.label_groups == "auto" else known & set(self.label_groups)
        return sorted(wanted) or [ALL]

    def unknown_groups(self, known: Iterable[str]) -> list[str]:
        """The label groups to watch that there are not."""
        return [] if self.label_groups == "auto" else sorted(set(self.label_groups) - set(known))

    @property
    def watched(self) -> list[Cell]:
        return [*map(parse_cell, self.fixed), *self.strategies]

    @property
    def fixed(self) -> list[str]:
        """The cells that are the same every night."""
        return [name for name in self.cells if name not in STRATEGY_NAMES]

    @property
    def strategies(self) -> list[Cell]:
        """What is chosen or learned anew every night, such as `tuned+cell`."""
        return [STRATEGY_NAMES[name] for name in self.cells if name in STRATEGY_NAMES]

    @property
    def measures(self) -> list[Measure]:
        measures = parse_measures(self.metrics)
        if per_label := label_measures(measures):
            raise ConfigError(f"{per_label[0]} is a mean over labels: without a figure per text it cannot be watched")
        return measures


class DriftSettings(Section):
    """Changes of the data that alarm. None: not checked."""

    labels: float | None = Field(0.1, ge=0, le=1)
    overlap: float | None = Field(0.05, ge=0, le=1)
    empty_lists: float | None = Field(0.02, ge=0, le=1)


class CheckSettings(Section):
    """What the data must be like before they are evaluated. None: not checked."""

    texts: float | None = Field(0.1, ge=0)
    labels: float | None = Field(0.2, ge=0)
    pairs: float | None = Field(0.2, ge=0)
    lists: float | None = Field(0.1, ge=0)
    gone_texts: float | None = Field(0.2, ge=0, le=1)
    new_texts: float | None = Field(0.5, ge=0, le=1)
    nulls: float | None = Field(0.01, ge=0, le=1)
    oldest: float | None = Field(None, gt=0)
    bounds: dict[str, tuple[float | None, float | None]] = Field(default_factory=dict)

    def check_bounds(self, inputs: Sequence[str] | None = None) -> None:
        """Refuse bounds of what is never counted. `inputs` names the runs and the judgements, where that is known."""
        for name in self.bounds:
            kind, colon, of_input = name.partition(":")
            known = [*QUANTITIES, *(f"{kind}:{one}" for kind in PER_INPUT for one in inputs or ())]
            open_name = inputs is None and kind in PER_INPUT and colon and of_input
            if name not in known and not open_name:
                raise unknown_name("quantity", name, known)


class CostSettings(Section):
    """How much more a night may take than its baseline, as a factor. None: not checked."""

    seconds: float | None = Field(None, gt=0)
    memory: float | None = Field(None, gt=0)


class NightlySettings(Section):
    """What is evaluated every night, and when it alarms."""

    datasets: list[str] = Field(default_factory=list)
    run_id: str | None = None
    history: str | None = None
    baseline: str | None = None
    watch: WatchSettings = WatchSettings()
    tolerance: float = Field(0.5, ge=0, le=100)
    alpha: float = Field(0.01, gt=0, lt=1)
    checks: CheckSettings = CheckSettings()
    drift: DriftSettings = DriftSettings()
    cost: CostSettings = CostSettings()
    keep: int = Field(0, ge=0)
    wait: float = Field(0, ge=0)
    lease: float = Field(300, gt=0)
    break_lock: str | None = None
    alerts: AlertSettings = AlertSettings()
    mlflow: Secret | None = None

    @field_validator("datasets", mode="before")
    @classmethod
    def _split(cls, names: object) -> object:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @field_validator("run_id", "baseline", "break_lock", mode="before")
    @classmethod
    def _name(cls, name: object) -> object:
        """YAML takes 2026-03-02 for a date, and 7 for a number."""
        return None if name is None else checked_name(str(name))
