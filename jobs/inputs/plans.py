"""What an engine must know besides the list rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fusion.grid.grid import Grid
from fusion.kernel.texts import Scope

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class Plan:
    """What an engine must know beside the list rows."""

    grid: Grid
    scope: Scope
    views: tuple[str, ...]
