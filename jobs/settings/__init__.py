"""The sections of the configuration: their settings, types and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fusion.errors import ConfigError
from fusion.grid import Cell, Grid, all_subsets, cross, parse_cells
from fusion.kernel.candidates import Constant, Missing, Policies
from fusion.metrics import Measure, parse_measures
from fusion.names import split

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
    higher_is_better: dict[str, bool] = Field(default_factory=dict)

    @property
    def distances(self) -> frozenset[str]:
        """The retrievers of whose scores the lowest is the best."""
        return frozenset(name for name, higher in self.higher_is_better.items() if not higher)


class GridSettings(Section):
    """Which cells are computed, and how."""

    normalizations: Names = "all"
    fusions: Names = "all"
    cells: list[str] | None = None
    subsets: Literal["all"] | None = None
    missing_labels: Missing = "skip"
    constant_lists: Constant = "formula"
    train_share: float = Field(0.0, ge=0, lt=1)
    scope: Literal["group", "joint"] = "group"
    engine: Literal["auto", "local", "arrays", "windows"] = "auto"
    local_limit: int = Field(100, ge=0)

    @field_validator("normalizations", "fusions")
    @classmethod
    def _split(cls, names: Names) -> Names:
        return split(names, ",") if isinstance(names, str) else names

    @field_validator("cells", mode="before")
    @classmethod
    def _cells(cls, cells: object) -> object:
        """YAML takes `bm25+dense: zmuv+combmnz` for a mapping."""
        if isinstance(cells, str):
            return split(cells, ",")
        if not isinstance(cells, list):
            return cells
        listed = ([f"{key}: {it}" for key, it in cell.items()] if isinstance(cell, dict) else [cell] for cell in cells)
        return [name for names in listed for name in names]

    @property
    def policies(self) -> Policies:
        return Policies(self.missing_labels, self.constant_lists)

    @property
    def chosen(self) -> list[Cell]:
        """The cells as they are named, whatever the retrievers."""
        if self.cells is None:
            return cross(self.normalizations, self.fusions)
        return [cell for name in self.cells for cell in parse_cells(name)]

    def grid(self, retrievers: Sequence[str]) -> Grid:
        """The grid over the lists of some retrievers."""
        cells = all_subsets(self.chosen, retrievers) if self.subsets == "all" else self.chosen
        return Grid(cells, retrievers, self.policies)


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

    format: Literal["parquet", "trec", "jsonl", "ranx"] = "parquet"
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
    """One cell, such as `zmuv+combmnz`."""
    cells = parse_cells(name)
    if len(cells) > 1:
        raise ConfigError(f"cell {name!r} stands for {len(cells)} cells where one is expected")
    return cells[0]
