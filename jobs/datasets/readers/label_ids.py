"""The labels of a text: checked, and written in one way."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F


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
