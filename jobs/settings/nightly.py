"""Settings of the nightly run."""

from __future__ import annotations

from pydantic import Field, field_validator

from fusion.errors import ConfigError
from fusion.grid import Cell
from fusion.metrics import Measure, label_measures, parse_measures
from jobs.settings import Section, parse_cell


class WatchSettings(Section):
    """The figures that must not fall."""

    cells: list[str] = Field(default_factory=lambda: ["zmuv+combmnz"], min_length=1)
    retrievers: bool = True
    metrics: list[str] = Field(default_factory=lambda: ["ndcg@10", "precision@1"], min_length=1)
    label_groups: list[str] = Field(default_factory=lambda: ["tail", "head"], min_length=1)

    @property
    def watched(self) -> list[Cell]:
        return [parse_cell(name) for name in self.cells]

    @property
    def measures(self) -> list[Measure]:
        measures = parse_measures(self.metrics)
        if per_label := label_measures(measures):
            raise ConfigError(f"{per_label[0]} is a mean over labels: without a figure per text it cannot be watched")
        return measures


class DriftSettings(Section):
    """Changes of the data that alarm."""

    labels: float = Field(0.1, ge=0, le=1)
    overlap: float = Field(0.05, ge=0, le=1)
    empty_lists: float = Field(0.02, ge=0, le=1)


class NightlySettings(Section):
    """What is evaluated every night, and when it alarms."""

    datasets: list[str] = Field(default_factory=list)
    run_id: str | None = None
    history: str | None = None
    baseline: str | None = None
    watch: WatchSettings = WatchSettings()
    tolerance: float = Field(0.5, ge=0)
    alpha: float = Field(0.01, gt=0, lt=1)
    drift: DriftSettings = DriftSettings()
    keep: int = Field(0, ge=0)
    wait: float = Field(0, ge=0)
    webhook: str | None = None
    mlflow: str | None = None

    @field_validator("datasets", mode="before")
    @classmethod
    def _split(cls, names: object) -> object:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @field_validator("run_id", "baseline", mode="before")
    @classmethod
    def _name(cls, name: object) -> object:
        """YAML takes 2026-03-02 for a date, and 7 for a number."""
        name = None if name is None else str(name)
        if name is not None and not all(sign.isalnum() or sign in "._-" for sign in name):
            raise ValueError("letters, digits, '.', '_' and '-' only: it becomes part of a path")
        return name
