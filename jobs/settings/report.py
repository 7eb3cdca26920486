"""Settings of the report."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from jobs.reporting.data import Test
from jobs.settings import Names, Section


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
