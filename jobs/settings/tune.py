"""The settings of `tune`."""

from __future__ import annotations

from importlib.util import find_spec

from pydantic import Field

from fusion.errors import unknown_name
from fusion.grid import Cell
from fusion.names import split
from fusion.tuning.objective import Objective, parse_objective
from fusion.tuning.strategies import NEEDS, STRATEGIES
from jobs.settings import Names, Section

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
