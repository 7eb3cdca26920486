"""What every format gives: texts with their labels as they were published, and what is known about the labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fusion.registry import Registry
from jobs.settings.prepare import Part, PrepareSettings, paths_of

TEXT_COLUMNS = ["text_id", "position", "text", "labels", "key", "problem"]
LABEL_COLUMNS = ["position", "label", "name", "alt_names", "description"]
TEXT_KEY = "text"
"""The group key that every format has: the text itself."""


@dataclass
class RawDataset:
    """A dataset as published, not read yet.

    texts: text_id long, position long (the order of the files; null in a catalog table, which has none), text string,
    labels array<string>, key string (null if there is none), and problem string: what is wrong with the row and where
    it stands, null if nothing is.
    labels: position long, label string, name string, alt_names array<string>, description string; None if the format
    has no list of labels, so that those in use are all.
    """

    texts: DataFrame
    labels: DataFrame | None = None
    label_source: str = ""


@dataclass(frozen=True)
class Reader:
    """A published form and how it is read."""

    name: str
    read: Callable[[SparkSession, PrepareSettings], RawDataset]
    label_lines: bool
    """Whether each part has a file of labels beside its file of texts."""
    columns: bool
    """Whether the settings of columns apply, the group key's included."""


READERS: Registry[Reader] = Registry("format")


def reader(
    name: str, *, label_lines: bool = False, columns: bool = False
) -> Callable[[Callable[[SparkSession, PrepareSettings], RawDataset]], Reader]:
    """Register a format."""

    def register(read: Callable[[SparkSession, PrepareSettings], RawDataset]) -> Reader:
        return READERS.add(Reader(name, read, label_lines, columns))

    return register


def file_parts(settings: PrepareSettings) -> list[tuple[Part, list[str]]]:
    """The parts with the paths of their texts."""
    return [(part, paths_of(settings, part.texts)) for part in settings.parts]


def first_problem(*checks: Column) -> Column:
    """The first of several problems, null if there is none."""
    return (F.coalesce(*checks) if len(checks) > 1 else checks[0]).alias("problem")


def union(tables: list[DataFrame]) -> DataFrame:
    """The rows of all tables."""
    together = tables[0]
    for table in tables[1:]:
        together = together.unionByName(table)
    return together


class Checked(NamedTuple):
    """The labels of a text as strings, and what is wrong with them (null if nothing is)."""

    labels: Column
    problem: Column


def stripped(words: Column) -> Column:
    """Without white space of any kind at both ends: files have tabs there as well as spaces."""
    return F.regexp_replace(words, r"^\s+|\s+$", "")


def checked_ids(words: Column, place: Column, first: int, labels: int | None, source: str = "") -> Checked:
    """Label numbers from `first` on; where the number of labels is known, none may lie beyond it."""
    last = None if labels is None else first + labels - 1
    known = f"from {first} on" if last is None else f"{first} to {last} by {source}"

    def outside(word: Column) -> Column:
        number = word.try_cast("bigint")
        return number.isNull() | (number < first) | (F.lit(False) if last is None else number > last)

    strange = F.filter(words, lambda word: ~F.coalesce(word.rlike("^[0-9]+$"), F.lit(False)))
    problem = F.coalesce(
        _first_bad(place, "label id ", strange, " is not a whole number"),
        _first_bad(
            place, "label id ", F.filter(words, outside), f" is out of range: ids are {known} (prepare.first_label)"
        ),
    )
    numbers = F.transform(words, lambda word: word.try_cast("bigint").cast("string"))
    return Checked(F.array_distinct(numbers), problem)


def checked_names(words: Column, place: Column) -> Checked:
    """Label names, or ids of any kind. None may be empty."""
    blank = F.filter(words, lambda word: F.coalesce(F.trim(word), F.lit("")) == "")
    return Checked(F.array_distinct(words), _first_bad(place, "label ", blank, " is no name"))


def _first_bad(place: Column, before: str, bad: Column, after: str) -> Column:
    """The message about the first bad label; null if there is none."""
    quoted = F.concat(F.lit("'"), F.try_element_at(bad, F.lit(1)), F.lit("'"))
    first = F.coalesce(quoted, F.lit("null"))
    return F.when(F.size(bad) > 0, F.concat(place, F.lit(f": {before}"), first, F.lit(after)))
