"""The sections of the configuration: their settings, types and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fusion.errors import ConfigError
from fusion.grid import Cell, Grid, chosen_fusions, chosen_normalizations
from fusion.metrics import Measure, parse_measures

Names = str | list[str]


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Inputs(Section):
    """Where the tables are: a path, a catalog table, or a TREC file."""

    candidates: str | dict[str, str] | None = None
    judgements: str | None = None
    label_groups: str = "auto"
    head_share: float = Field(0.2, gt=0, lt=1)
    folds: str | None = None


class GridSettings(Section):
    """Which cells are computed, and how."""

    normalizations: Names = "all"
    fusions: Names = "all"
    cells: list[str] | None = None
    scope: Literal["group", "joint"] = "group"
    engine: Literal["auto", "local", "arrays", "windows"] = "auto"
    local_limit: int = Field(100, ge=0)

    @field_validator("normalizations", "fusions")
    @classmethod
    def _split(cls, names: Names) -> Names:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @property
    def grid(self) -> Grid:
        if self.cells is None:
            return Grid.of(self.normalizations, self.fusions)
        return Grid(parse_cell(name) for name in self.cells)


class EvaluateSettings(Section):
    """What `evaluate` reports."""

    metrics: Names = Field(default_factory=lambda: [f"{m}@{k}" for m in ("ndcg", "precision") for k in (1, 5, 10)])
    label_groups: Names = "auto"
    per_query: bool = False
    details: bool = True
    examples: int = Field(5, ge=0, le=100)
    randomizations: int = Field(100_000, ge=0, le=1_000_000)
    blocks: int = Field(1024, ge=2, le=65_536)
    seed: int = Field(0, ge=0)

    @property
    def measures(self) -> list[Measure]:
        return parse_measures(self.metrics)


class FuseSettings(Section):
    """What `fuse` writes."""

    top: int = Field(64, ge=1)
    label_groups: Names = "auto"


class OutputSettings(Section):
    """Where the results go."""

    path: str | None = None
    mode: Literal["error", "overwrite"] = "error"


class SparkSettings(Section):
    """The Spark session. Ignored where one exists already."""

    master: str | None = None
    remote: str | None = None
    partitions: int | None = Field(None, ge=1)
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict)


def parse_cell(name: str) -> Cell:
    """`zmuv+combmnz`."""
    normalization, plus, fusion = name.partition("+")
    if not plus:
        raise ConfigError(f"cell {name!r}: expected NORMALIZATION+FUSION, as in 'zmuv+combmnz'")
    return Cell(chosen_normalizations(normalization)[0].name, chosen_fusions(fusion)[0].name)
