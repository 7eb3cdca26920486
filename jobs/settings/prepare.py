"""The settings of job `prepare`: which files make a dataset, and how its texts are divided."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from jobs.settings.base import Names, Section

Encoding = Literal["utf-8", "latin-1"]


class WorkSettings(Section):
    """Where the stages of all datasets are kept: one folder per dataset."""

    path: str = "work"
    keep: int = Field(2, ge=1)
    """Versions of a stage that are kept, the current one included; others go when they are old enough."""
    keep_hours: float = Field(48, ge=0)


class Part(Section):
    """One published part of a dataset: its files, relative to the dataset's folder. Patterns (`*`) are allowed."""

    name: str
    texts: Names
    labels: Names | None = None


class Columns(Section):
    """What the columns of JSON lines and Parquet files are called."""

    text_id: str | None = None
    """Whole numbers, unique over all parts. Without them, texts are numbered in the order of the files."""
    text: Names = "text"
    """Several columns are joined by a line break, empty ones left out."""
    labels: str = "labels"
    label: str = "label"
    name: str | None = "name"
    """None if labels have no names but their ids."""
    alt_names: str = "alt_names"
    description: str = "description"


class PaperStatistics(Section):
    """A row of the paper's table of datasets, to be printed beside ours."""

    texts: int
    labels: int
    tail_per_text: float
    head_per_text: float
    texts_per_label: float


class PrepareSettings(Section):
    """What `prepare` reads, keeps, and how it makes label groups and folds."""

    format: str | None = None
    folder: str = "."
    parts: list[Part] = Field(default_factory=list)
    encoding: Encoding = "utf-8"

    label_separator: Literal["space", "tab", "comma"] = "space"
    first_label: int = Field(0, ge=0, le=1)
    label_file: str | None = None
    label_encoding: Encoding = "utf-8"
    columns: Columns = Columns()

    unused_labels: Literal["keep", "drop"] = "drop"
    duplicates: Literal["report", "drop"] = "report"
    limit: int | None = Field(None, ge=1)

    head_share: float = Field(0.2, gt=0, lt=1)
    folds: int = Field(5, ge=2)
    validation_share: float = Field(0.1, ge=0, lt=1)
    seed: int = 42
    group_key: str | None = None

    paper: PaperStatistics | None = None


def paths_of(settings: PrepareSettings, names: Names) -> list[str]:
    """The files of a setting, below the dataset's folder. Absolute paths, addresses and tables stand for themselves."""
    wanted = [names] if isinstance(names, str) else list(names)
    absolute = ("/", "table:", "dbfs:", "file:")
    return [
        name if name.startswith(absolute) or "://" in name else f"{settings.folder.rstrip('/')}/{name}"
        for name in wanted
    ]
