"""What runs steps: this process, or Spark. Every job is written once, over this protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from udfs.columns import Among, Columns
from udfs.steps import Step

Rows = TypeVar("Rows")
"""Rows that may not have been computed yet: a lazy stream of batches in this process, a DataFrame on Spark. They may be
computed again each time they are used; what is expensive is written, and read back."""
Taken = TypeVar("Taken", contravariant=True)
"""Rows that are handed over."""

Done = Callable[[int], object]
"""Called with a number of input rows that a step has just finished, by an engine that hears of it."""


class Written(NamedTuple):
    """What is known about rows that were written."""

    rows: int
    aside: list[Any]
    """The different values of the column that was left out, nulls apart."""


class OutputTable(Protocol[Taken]):
    """A table of a catalog that rows are to be written to."""

    def check(self) -> None:
        """Refuse a name that is taken, or whose schema is not there, before any work is done."""

    def write(self, rows: Taken) -> int:
        """Compute the rows, and write them as the table; how many there are."""


class Engine(Protocol[Rows]):
    """Reads tables, runs steps over their rows, and writes them."""

    name: str

    @property
    def about(self) -> dict[str, Any]:
        """What is to be recorded of it."""

    @property
    def workers(self) -> int:
        """How many calls of a step run at the same time."""

    def read(self, source: Any, columns: Sequence[str] | None = None, keep: bool = False) -> Rows:
        """The rows of a Parquet file or folder, of an Arrow table, or of rows; on Spark also of a DataFrame, or of a
        catalog table named `table:NAME`. Rows that are used several times are to be kept: this process then reads them
        once."""

    def files(self, splits: pa.Table, step: Step, done: Done | None = None, keep: bool = False) -> Rows:
        """What a step makes of the rows of a small table, one call per row and as many side by side as there are
        workers. The rows say what to read or to do: a range of a file, a fold. `keep`: as for `read`."""

    def select(self, rows: Rows, columns: Columns, where: Sequence[Among] = ()) -> Rows:
        """Some columns of some rows, without a step in Python."""

    def count(self, rows: Rows, columns: Sequence[str], most: int | None = None) -> pa.Table:
        """The few different values that some columns hold together, and in `rows` the number of rows that do. Without
        columns, there is one number; `most` then says how far it matters."""

    def map(self, rows: Rows, step: Step, done: Done | None = None) -> Rows:
        """What a step makes of batches of bounded size."""

    def group(self, rows: Rows, keys: Sequence[str], step: Step, order: Sequence[str] = ()) -> Rows:
        """What a step makes of rows that are sorted by `keys` and then `order`, nulls first. Rows of a key are together
        in one call: one shuffle on Spark. Batches may end within a key (see `whole_keys`)."""

    def union(self, *rows: Rows) -> Rows:
        """The rows of several tables with the same columns."""

    def schema(self, rows: Rows) -> pa.Schema:
        """The columns with their types, without computing anything."""

    def collect(self, rows: Rows) -> pa.Table:
        """All rows, in this process: of small tables only. The order is not defined on Spark."""

    def held(self, rows: Rows) -> Any:
        """The rows as users get them: a table in this process, a DataFrame on Spark."""

    def write(
        self, rows: Rows, folder: str, by: Sequence[str] = (), order: Sequence[str] = (), aside: str | None = None
    ) -> Written:
        """Compute the rows, and write them as Parquet files into a folder: those with the same values in the columns
        `by` into a folder of their own (`column=value/...`), in the given order through its files. The column `aside`
        is left out."""

    def output_table(self, name: str, replace: bool) -> OutputTable[Rows]:
        """A table of Spark's catalog. `replace`: whether one of this name, with the same columns, makes way."""
