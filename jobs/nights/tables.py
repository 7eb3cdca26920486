"""What the history of nights holds: its tables, their columns, and how both kinds of storage keep them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import OutputError

RUNS, DECISIONS, DELIVERIES = "runs", "decisions", "deliveries"
KEYS: dict[str, pa.DataType] = {"run_id": pa.string(), "dataset": pa.string(), "attempt": pa.int64()}
"""What every row about a night begins with. `attempt` is the number of the lease under which it was written."""


def _columns(strings: str = "", **others: pa.DataType) -> dict[str, pa.DataType]:
    return {**dict.fromkeys(strings.split(), pa.string()), **others}


COLUMNS: dict[str, dict[str, pa.DataType]] = {
    RUNS: _columns(
        "verdict reason baseline data configuration code commit settings file started finished version uncompared",
        figures=pa.bool_(),
        evaluated=pa.bool_(),
    ),
    "metrics": {},
    "watched": _columns(
        "normalization fusion label_group metric",
        k=pa.int32(),
        mean=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        queries=pa.int64(),
        fell=pa.bool_(),
        new_texts=pa.int64(),
        gone_texts=pa.int64(),
    ),
    "drift": _columns(
        "kind retriever other label_group quantity",
        value=pa.float64(),
        change=pa.float64(),
        allowed=pa.float64(),
        alarm=pa.bool_(),
    ),
    "checks": _columns(
        "quantity rule", value=pa.float64(), before=pa.float64(), low=pa.float64(), high=pa.float64(), alarm=pa.bool_()
    ),
    "choices": _columns("label_group strategy choice objective", validation_value=pa.float64()),
    "label_counts": _columns("label", texts=pa.int64()),
    "query_figures": {},
    "judged": _columns("text_id", judgement=pa.int64()),
    "predictions": _columns("model text_id label", probability=pa.float64()),
    "run_log": _columns(
        "stage details",
        seconds=pa.float64(),
        bytes=pa.int64(),
        peak_memory=pa.int64(),
        skipped=pa.bool_(),
    ),
}
"""The tables of a night. Those without columns take what is given to them."""
EVENTS: dict[str, dict[str, pa.DataType]] = {
    DECISIONS: _columns("time kind run_id dataset words who", attempt=pa.int64()),
    DELIVERIES: _columns(
        "time run_id channel delivery detail", attempt=pa.int64(), delivered=pa.bool_(), tries=pa.int32()
    ),
}
"""What happens to nights later on: nothing is ever replaced here."""
PARTITIONED = ("metrics", "label_counts", "query_figures", "judged", "predictions")
"""Tables of which one or two nights are read at a time; each night has files of its own. The others are read whole."""
TABLES = tuple(COLUMNS)


@dataclass(frozen=True)
class Holder:
    """Who holds the lease of a history: one night at a time."""

    number: int
    """Every lease has the next number. What is written under an older one no longer counts."""
    run_id: str
    host: str
    pid: int
    birth: str | None
    since: str
    beat: float
    """When the holder was last known to be at work, in seconds since 1970."""
    seconds: float
    """How long after that the lease is still the holder's."""

    def __str__(self) -> str:
        return f"night {self.run_id} (process {self.pid} on {self.host})"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, values: Any) -> Holder | None:
        """None if the values do not describe a holder, as after a full disk."""
        number = int | float
        kinds = {"number": int, "run_id": str, "host": str, "pid": int, "birth": str | None, "since": str}
        kinds |= {"beat": number, "seconds": number}
        if not isinstance(values, dict) or values.keys() != kinds.keys():
            return None
        return cls(**values) if all(isinstance(values[name], kinds[name]) for name in kinds) else None


class FencedError(OutputError):
    """Raised when a night has lost its lease to another one: nothing of it enters the history any more."""


class Storage(Protocol):
    """Append-only tables, and a lease that fences whoever has lost it."""

    def append(self, name: str, rows: pa.Table) -> None: ...

    def read(self, name: str, run_ids: list[str] | None = None) -> pa.Table | None:
        """The rows of some nights, or all of them; None if there is no such table."""

    def sql(self, query: str) -> pa.Table:
        """The answer to a query over all tables by their names, with every attempt in them."""

    def commit(self, rows: pa.Table) -> None:
        """Append to `runs` under the lease that was taken; FencedError if another one was taken since."""

    def forget(self, run_ids: list[str], attempts: list[int]) -> None:
        """Remove nights, then all rows of other tables that belong to them or to these attempts; FencedError if another
        lease was taken since."""

    def take(self, holder: Holder) -> bool:
        """Take the lease with the next number; whether that was possible."""

    def holder(self) -> Holder | None:
        """Who took the lease last, whether or not at work; None if nobody did."""

    def beat(self, holder: Holder) -> None: ...

    def release(self, holder: Holder) -> None: ...


def with_keys(rows: pa.Table, run_id: str, dataset: str, attempt: int) -> pa.Table:
    """The rows with the columns that say which night they belong to."""
    for name, value in (("attempt", attempt), ("dataset", dataset), ("run_id", run_id)):
        column = pa.array([value] * len(rows), KEYS[name])
        rows = rows.add_column(0, name, column)
    return rows


def typed(name: str, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of a table with fixed columns; what a row leaves out is null."""
    return pa.Table.from_pylist(rows, pa.schema(list(COLUMNS[name].items())))


def rows_of(table: pa.Table, attempts: set[tuple[str, str, int]]) -> pa.Table:
    """The rows of some attempts, each given as night, dataset and number."""
    keys = [pc.cast(table[name], pa.string()) for name in KEYS]
    wanted = pa.array(["\n".join(map(str, attempt)) for attempt in attempts], pa.string())
    return table.filter(pc.is_in(pc.binary_join_element_wise(*keys, "\n"), value_set=wanted))
