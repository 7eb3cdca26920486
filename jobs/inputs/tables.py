"""What reading the inputs needs of an engine: tables of some kind, and a few things to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from fusion.types import Ints
from jobs.inputs.sources import Source
from udfs.lists import LabelGroups

T = TypeVar("T")
FOLD = 0
"""The one fold, where there are no folds."""


class Frequencies(NamedTuple):
    """How many texts carry each label, in the order of the ids."""

    ids: pa.Array
    counts: Ints


class Placed(NamedTuple):
    """How the rows of a run become list rows."""

    first_code: int
    """The list code of the run's first slot."""
    slots: tuple[str, ...]
    groups: LabelGroups | None
    divided: bool
    """Whether lists come by label group."""
    distances: bool = False
    """Whether the lowest score is the best; list rows have such scores with the opposite sign."""


class RowTypes(NamedTuple):
    """The types that list rows have in common."""

    text: str
    label: str
    score: str


class Tables(Protocol[T]):
    """Tables of an engine: Arrow tables in this process, or Spark DataFrames."""

    def read(self, source: Source, name: str) -> T:
        """A table, as it is."""

    def read_run(self, source: Source, name: str) -> T:
        """Candidates: text_id with label_ids and scores, or with label_id and score."""

    def read_judgements(self, source: Source, name: str) -> T:
        """The judged labels of each text, one row per text: text_id, label_ids and, where they are given, grades
        and words. Judged texts may have no labels."""

    def has_grades(self, judgements: T) -> bool:
        """Whether there are grades, and not only 0 and 1."""

    def graded_from(self, judgements: T, lowest: float) -> T:
        """The labels of each text with this grade or a higher one; all texts stay."""

    def relevant_only(self, judgements: T, relevant_from: float) -> T:
        """The labels of each text with this grade or a higher one, without their grades."""

    def columns(self, table: T) -> dict[str, str]:
        """The columns with their types, as Spark calls them."""

    def arrow(self, table: T, columns: Sequence[str]) -> pa.Table:
        """Some columns of a small table."""

    def distinct(self, table: T, column: str) -> list[Any]:
        """The values of a column."""

    def first_values(self, table: T, column: str, most: int) -> list[str]:
        """The first values of a column in their order, as strings, and no more than `most` of them."""

    def is_empty(self, table: T) -> bool: ...

    def has_nulls(self, table: T, column: str) -> bool: ...

    def first_repeated(self, table: T, columns: Sequence[str]) -> dict[str, Any] | None:
        """The smallest values of some columns that two rows share, None if no two do."""

    def size(self, table: T) -> int:
        """The number of rows."""

    def equal(self, table: T, column: str, value: str | int, nulls: bool = False) -> T:
        """The rows with a value in a column and, if `nulls`, those without any."""

    def unequal(self, table: T, column: str, value: str) -> T:
        """The rows with any other value in a column."""

    def without(self, table: T, column: str) -> T:
        """The same rows without a column."""

    def having(self, table: T, column: str, ids: Sequence[str]) -> T:
        """The rows whose id in a column, written as a string, is one of some."""

    def with_texts(self, table: T, others: Sequence[T], among: bool) -> T:
        """The rows whose text is among those of other tables, or is not."""

    def frequencies(self, judgements: T) -> Frequencies: ...

    def accented_labels(self, table: T) -> list[str]:
        """The labels of candidates or judgements that are strings with other characters than ASCII."""

    def unseen_labels(self, judgements: T, roles: T) -> dict[int, pa.Array]:
        """By fold, the labels of its test texts that only its test and validation texts carry. `roles` has the columns
        fold, text_id and role."""

    def in_fold(self, table: T, folds: T | None) -> T:
        """Rows with their fold: one of their own, that of the text, or the only one."""

    def list_rows(self, run: T, place: Placed, types: RowTypes) -> T:
        """The rows of a run as list rows (text_id, fold, list, label_ids, scores)."""

    def judgement_rows(self, judgements: T, types: RowTypes) -> T:
        """Judgements as list rows. Scores are the grades; without grades they are zero, and the total order then sorts
        the labels by id. The list code tells the band that the number of words falls into."""

    def union(self, tables: Sequence[T]) -> T: ...
