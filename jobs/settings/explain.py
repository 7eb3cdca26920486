"""The settings of `explain`."""

from __future__ import annotations

from pydantic import Field

from fusion.grid import Cell
from fusion.label_groups import ALL
from jobs.settings import Section, parse_cell


class ExplainSettings(Section):
    """Which text is explained, and by which cell."""

    text: str | None = None
    cell: str = "zmuv+combmnz"
    label_group: str = ALL
    rows: int = Field(20, ge=1)

    @property
    def chosen(self) -> Cell:
        return parse_cell(self.cell)
