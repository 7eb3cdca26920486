"""Settings of `explain`, `report`, `tune`, the log and object stores."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal

from pydantic import Field, field_validator

from fusion.cells import Cell
from fusion.errors import unknown_name
from fusion.labels import ALL
from fusion.models.strategies import NEEDS, STRATEGIES
from fusion.names import split
from fusion.tuning.search import Objective, parse_objective
from jobs.settings.base import Names, Secret, Section, parse_cell

if TYPE_CHECKING:
    pass


class ExplainSettings(Section):
    """Which text is explained, and by which cell."""

    text: str | None = None
    cell: str = "zmuv+combmnz"
    label_group: str = ALL
    rows: int = Field(20, ge=1)

    @property
    def chosen(self) -> Cell:
        return parse_cell(self.cell)


class LogSettings(Section):
    """The terminal's lines, and a file of lines for programs."""

    format: Literal["text", "keyvalue"] = "text"
    """On standard error: sentences for people, or key=value pairs."""
    file: str | None = None
    """Gets key=value lines, whatever the terminal shows. What is there is kept."""


class ReportSettings(Section):
    """What `report` reads and how it decides."""

    results: Names | None = None
    compare: tuple[str, str] | None = None
    title: str = "Rank fusion"
    test: Test = "folds"
    alpha: float = Field(0.05, gt=0, lt=1)
    figures: Literal["auto", True, False] = "auto"

    @field_validator("results")
    @classmethod
    def _split(cls, names: Names | None) -> Names | None:
        return [name.strip() for name in names.split(",")] if isinstance(names, str) else names

    @field_validator("compare", mode="before")
    @classmethod
    def _two(cls, folders: Names | None) -> Names | None:
        names = [name.strip() for name in folders.split(",")] if isinstance(folders, str) else folders
        if names is not None and len(names) != 2:
            raise ValueError(f"expected two folders of results, not {len(names)}")
        return names


class StorageSettings(Section):
    """Endpoint and credentials, each over what the environment says. Credentials are never written anywhere."""

    endpoint: str | None = None
    region: str | None = None
    access_key: Secret | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    azure_account_key: Secret | None = None
    azure_sas_token: Secret | None = None
    gcs_endpoint: str | None = None
    attempts: int = Field(6, ge=1, le=20)


AUTO = "auto"


class TuneSettings(Section):
    """What is chosen and learned on validation texts, and by which objective."""

    strategies: Names = AUTO
    objective: str = "ndcg@10"
    shared: bool = False
    settings: int = Field(500, ge=1)
    passes: int = Field(2, ge=1, le=10)
    texts: int = Field(10_000, ge=2)
    parts: int = Field(5, ge=2, le=100)
    l2: list[float] = Field(default_factory=lambda: [0.1, 1.0, 10.0, 100.0], min_length=1)
    trees: list[tuple[int, int]] = Field(default_factory=lambda: [(7, 100), (15, 50)], min_length=1)
    curve: list[int] = Field(default_factory=lambda: [50, 100, 200, 500, 1000, 2000, 5000])
    deploy: str = AUTO
    seed: int = Field(0, ge=0)

    @property
    def goal(self) -> Objective:
        return parse_objective(self.objective)

    @property
    def chosen(self) -> list[Cell]:
        """The strategies by their names; `auto` stands for all whose packages are installed."""
        if self.strategies == AUTO:
            return [cell for cell in STRATEGIES if cell not in NEEDS or find_spec(NEEDS[cell])]
        wanted = split(self.strategies, ",") if isinstance(self.strategies, str) else self.strategies
        return [_strategy(name) for name in dict.fromkeys(wanted)]

    @property
    def deployed(self) -> Cell | None:
        """The strategy that the model file holds; None: the best one."""
        return None if self.deploy == AUTO else _strategy(self.deploy)


def _strategy(name: str) -> Cell:
    known = {str(cell): cell for cell in STRATEGIES}
    if name not in known:
        raise unknown_name("strategy", name, known)
    return known[name]


Test = Literal["folds", "queries", "randomization"]
