"""The sections of the configuration that most jobs share, secrets, and names that become parts of paths."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from fusion.cells import Cell
from fusion.errors import ConfigError
from fusion.grid.grid import Grid, all_subsets, cross, parse_cells
from fusion.kernel.candidates import Constant, Missing, Policies
from fusion.labels import PROPENSITY_MODELS
from fusion.metrics import Measure, parse_measures
from fusion.names import split
from fusion.worth import GradeGain, Rules, Ties

Names = str | list[str]
SECRET_NAME = re.compile(r"secret|password|token|access[._-]?key|account[._-]?key|credential", re.IGNORECASE)
"""Names of Spark's settings whose values are nobody's business."""


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RetrieverSettings(Section):
    """What every retriever has."""

    top: int = Field(64, ge=1)
    """The length of the lists, per label group."""


class Inputs(Section):
    """Where the tables are: a path, a catalog table, or a TREC file."""

    candidates: str | dict[str, str] | None = None
    judgements: str | None = None
    label_groups: str = "auto"
    head_share: float = Field(0.2, gt=0, lt=1)
    folds: str | None = None
    training: str | None = None
    higher_is_better: dict[str, bool] = Field(default_factory=dict)

    @property
    def distances(self) -> frozenset[str]:
        """The retrievers of whose scores the lowest is the best."""
        return frozenset(name for name, higher in self.higher_is_better.items() if not higher)


class GridSettings(Section):
    """Which cells are computed, and how."""

    normalizations: Names = Field(default_factory=lambda: ["all"])
    fusions: Names = Field(default_factory=lambda: ["all"])
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
    compat: Literal["trec_eval", "ranx"] | None = None
    relevant_from: float = Field(1, gt=0)
    gain: GradeGain = "linear"
    ties: Literal["auto", "ascending", "descending", "expected"] = "auto"
    propensity: Literal["standard", "wikipedia", "amazon"] | tuple[float, float] = "standard"
    label_cells: Names = "auto"
    per_query: bool = False
    details: bool = True
    examples: int = Field(5, ge=0, le=100)
    randomizations: int = Field(100_000, ge=0, le=1_000_000)
    blocks: int = Field(1024, ge=2, le=65_536)
    seed: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _fits(self) -> EvaluateSettings:
        if self.compat is not None and self.ties != "auto":
            raise ValueError(f"compat: {self.compat} says how ties are ordered; leave ties at auto")
        if isinstance(self.propensity, tuple) and min(self.propensity) <= 0:
            raise ValueError("propensity: A and B must be above 0")
        return self

    @property
    def measures(self) -> list[Measure]:
        return parse_measures(self.metrics)

    @property
    def rules(self) -> Rules:
        """How judgements and equal scores are read."""
        of_tool: dict[str | None, Ties] = {"trec_eval": "descending", "ranx": "ranx"}
        ties: Ties = "ascending" if self.ties == "auto" else self.ties
        return Rules(self.relevant_from, self.gain, of_tool.get(self.compat, ties))

    @property
    def propensity_constants(self) -> tuple[float, float]:
        """A and B of the propensity model."""
        return PROPENSITY_MODELS[self.propensity] if isinstance(self.propensity, str) else self.propensity


class FuseSettings(Section):
    """What `fuse` writes."""

    model: str | None = None
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
    quick_java: bool = False
    conf: dict[str, str | int | float | bool] = Field(default_factory=dict, repr=False)

    @field_serializer("conf", when_used="json")
    def _without_secrets(self, conf: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        """Written configurations hold no credentials."""
        return {key: value for key, value in conf.items() if not SECRET_NAME.search(key)}


def parse_cell(name: str) -> Cell:
    """One cell, such as `zmuv+combmnz`."""
    cells = parse_cells(name)
    if len(cells) > 1:
        raise ConfigError(f"cell {name!r} stands for {len(cells)} cells where one is expected")
    return cells[0]


HIDDEN = "**********"
REFERENCE = "env:"


class Secret:
    """A setting that is printed as stars, or as the reference to the environment that it is (`env:NAME`)."""

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The secret itself; the environment is asked only now."""
        if self._value == HIDDEN:
            raise ConfigError("a secret was written out as stars: give it again, or as env:NAME")
        if not self._value.startswith(REFERENCE):
            return self._value
        name = self._value.removeprefix(REFERENCE)
        if not os.environ.get(name):
            raise ConfigError(f"a setting refers to {self._value}, but the environment has no {name}")
        return os.environ[name]

    def __str__(self) -> str:
        return self._value if self._value.startswith(REFERENCE) else HIDDEN

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def read(value: Any) -> Secret:
            return value if isinstance(value, Secret) else cls(value)

        text = core_schema.union_schema([core_schema.is_instance_schema(cls), core_schema.str_schema(min_length=1)])
        # JSON is for files and people. Python's own form keeps the secret, for the next layer of settings.
        written = core_schema.plain_serializer_function_ser_schema(str, when_used="json")
        return core_schema.no_info_after_validator_function(read, text, serialization=written)


LONGEST = 100
SIGNS = " ._+-"


def checked_name(name: str) -> str:
    """A name that is safe as a folder's: letters and digits of any script, and a few signs within. The same name may
    be written in several ways in Unicode; here it always comes out in one."""
    name = unicodedata.normalize("NFC", name)
    if not name or len(name.encode()) > LONGEST:
        raise ValueError(f"it becomes part of a path: 1 to {LONGEST} bytes")
    if not all(sign.isalnum() or sign in SIGNS for sign in name):
        raise ValueError("letters, digits, space, '.', '_', '+' and '-' only: it becomes part of a path")
    if not name[0].isalnum() or name[-1] in " .":
        raise ValueError("it becomes part of a path: it should begin with a letter or digit, and not end with a dot")
    return name


RESERVED = ("nightly", "history")
"""Folders that all datasets of a work folder share."""


def checked_dataset(name: str) -> str:
    """The name of a dataset, which has a folder in the work folder."""
    name = checked_name(name)
    if name.lower() in RESERVED:
        raise ValueError(f"a dataset cannot be called {name!r}: the work folder has a folder of that name")
    return name
