"""The settings of job `prepare`: which files make a dataset, and how its texts are divided."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from fusion.errors import ConfigError
from fusion.labels import parse_bounds
from jobs.settings.base import Folder, Names, Section

Encoding = Literal["utf-8", "latin-1"]
Role = Literal["train", "validation", "test"]


class WorkSettings(Section):
    """Where the stages from texts to candidates are kept: one folder per dataset, each stage built once."""

    path: Folder = "work"
    """The work folder, in which stages are kept."""
    keep: int = Field(2, ge=1)
    """Finished versions of a stage that are kept, the current one included. Others are removed when they are older than
    keep_hours and no other stage was made from them."""
    keep_hours: float = Field(48, ge=0)
    """How many hours other versions are kept."""


class Part(Section):
    """One published part of a dataset: its files, relative to the dataset's folder. Patterns (`*`) are allowed."""

    name: str
    """The name of the part."""
    texts: Names
    """The files of its texts."""
    labels: Names | None = None
    """The files of its labels, where they are not in those of the texts."""
    role: Role | None = None
    """The role of its texts in a published split: train, validation or test. A part with one of these names has that
    role."""


class Columns(Section):
    """The names of the columns of JSON lines, CSV and Parquet files."""

    text_id: str | None = None
    """The column of text ids, which must be unique over all parts. They are whole numbers if every id is one, strings
    otherwise. Without this column, texts are numbered in the order of the files."""
    text: Names = "text"
    """The column of the text, or several, which are joined by line breaks; empty ones are left out."""
    labels: str = "labels"
    """The column of the labels: a list of names or numbers, or one string (prepare.label_separator)."""
    role: str | None = None
    """The column of the part of a published split that a text is in, if parts are not separate files."""
    label: str = "label"
    """In the label file, the column of the label, as the texts have it."""
    name: str | None = "name"
    """The column of its readable name; null if labels have no names but their ids."""
    alt_names: str = "alt_names"
    """The column of its other names, a list."""
    description: str = "description"
    """The column of its description."""


class PaperStatistics(Section):
    """A row of the paper's table of datasets, to be printed with ours."""

    texts: int
    """The number of texts."""
    labels: int
    """The number of labels."""
    tail_per_text: float
    """Tail labels per text."""
    head_per_text: float
    """Head labels per text."""
    texts_per_label: float
    """Texts per label."""


class PrepareSettings(Section):
    """From published files to texts, labels and folds. conf/datasets has one file per dataset."""

    format: str | None = None
    """The format of the files: lines-ids, lines-names, xc-json, xc-sparse, samples-pkl, jsonl, csv or parquet."""
    folder: Folder = "."
    """The folder of the dataset's files. In a configuration file that has none, the folder of that file."""
    parts: list[Part] = Field(default_factory=list)
    """The published parts, which are joined: {name: train, texts: X.trn.txt, labels: Y.trn.txt}. Files are relative to
    the folder, and may have a `*`."""
    encoding: Encoding = "utf-8"
    """The encoding of the files of texts."""

    delimiter: Literal["comma", "semicolon", "tab", "pipe"] = "comma"
    """The separator of the columns of csv files, whose first line names them."""
    label_separator: Literal["space", "tab", "comma", "semicolon", "pipe", "single"] | None = None
    """The separator of the labels of a text, if they are one string; single: the string is one label. null: a list in
    jsonl and parquet, one label in csv, white space in lines-names."""
    first_label: int = Field(0, ge=0, le=1)
    """Whether label ids in files begin at 0 or at 1."""
    label_file: str | None = None
    """The file of the labels' names; for jsonl, csv and parquet also other names and descriptions."""
    label_encoding: Encoding = "utf-8"
    """The encoding of the label file."""
    columns: Columns = Columns()

    unused_labels: Literal["keep", "drop"] = "drop"
    """What happens to labels that no text has."""
    duplicates: Literal["report", "drop"] = "report"
    """What happens to texts that repeat another one."""
    identical_texts: Literal["together", "apart"] = "together"
    """Whether texts that are equal stay in one fold, whatever their ids and keys."""
    limit: int | None = Field(None, ge=1)
    """At most this many texts, drawn with the seed."""

    head_share: float = Field(0.2, gt=0, lt=1)
    """The share of labels that are head."""
    label_groups: dict[str, str | int] | None = None
    """Instead of head and tail, label groups by the number of training texts that carry a label:
    {frequent: 50.., few: 1..49, zero: 0}. Validation texts do not count. With several folds all texts are counted."""
    split: Literal["folds", "hash", "published"] = "folds"
    """folds: every text is tested once. hash: one fold, in which a share of the texts is tested. published: one fold;
    the roles of the parts, or the column columns.role, say which texts are tested."""
    roles: dict[str, Role] = Field(default_factory=dict)
    """The role that a value of that column means, if it is not the name of a role: {dev: validation}."""
    allow_leaks: bool = False
    """Whether parts of a published split may have texts in common."""
    folds: int = Field(5, ge=2)
    """The number of folds."""
    validation_share: float = Field(0.1, ge=0, lt=1)
    """The share of a fold's training texts that is held out for validation."""
    test_share: float = Field(0.2, gt=0, lt=1)
    """The share of texts that is tested, with split: hash."""
    seed: int = 42
    """The seed that decides which texts are drawn and in which fold each is."""
    group_key: str | None = None
    """A column whose equal values keep texts in one fold; `text` keeps repeated texts together."""

    paper: PaperStatistics | None = None
    """The paper's statistics of the dataset, to be printed with ours."""

    @property
    def fold_count(self) -> int:
        """How many folds the split makes."""
        return self.folds if self.split == "folds" else 1

    @model_validator(mode="before")
    @classmethod
    def _roles_by_name(cls, values: Any) -> Any:
        """In a published split, parts that are called as a role have it."""
        if not isinstance(values, dict):
            return values
        parts, columns = values.get("parts"), values.get("columns")
        by_column = isinstance(columns, dict) and columns.get("role")
        if values.get("split") != "published" or by_column or not isinstance(parts, list):
            return values
        named = [
            {**part, "role": part["name"]}
            if isinstance(part, dict) and part.get("role") is None and part.get("name") in get_args(Role)
            else part
            for part in parts
        ]
        return {**values, "parts": named}

    @field_validator("label_groups")
    @classmethod
    def _bounds(cls, groups: dict[str, str | int] | None) -> dict[str, str | int] | None:
        if groups is not None:
            try:
                parse_bounds(groups)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return groups


def paths_of(settings: PrepareSettings, names: Names) -> list[str]:
    """The files of a setting, below the dataset's folder. Absolute paths, addresses and tables stand for themselves."""
    wanted = [names] if isinstance(names, str) else list(names)
    absolute = ("/", "table:", "dbfs:", "file:")
    return [
        name if name.startswith(absolute) or "://" in name else f"{settings.folder.rstrip('/')}/{name}"
        for name in wanted
    ]
