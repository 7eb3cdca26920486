"""What is known about labels apart from the texts: their names, alternative names and descriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError
from jobs.datasets.readers import LineFiles
from jobs.datasets.records import TABLE, Asked, json_records, parquet_records, separated_records, separator_of
from jobs.engines.engine import Engine
from jobs.settings.prepare import Columns, PrepareSettings, paths_of
from udfs.datasets.prepared import first_problems
from udfs.datasets.records import AS_LABELS, SEPARATORS, LabelColumns
from udfs.datasets.separated import DELIMITERS
from udfs.datasets.texts import WHITE, line_step

SEPARATED = ("csv", "tsv")
"""Endings of label files that are separated values."""
Keys = Literal["position", "label"]
"""How labels are found: by their place in the file (label numbers), or by the label that stands there."""


@dataclass(frozen=True)
class LabelFile:
    """rows: the columns of `RawDataset.labels`."""

    rows: pa.Table
    count: int
    source: str


def is_plain(path: str) -> bool:
    """Whether a label file is lines of names, not records."""
    return _suffix(path) not in ("json", "jsonl", "ndjson", "parquet", *SEPARATED) and not path.startswith(TABLE)


def read_label_file(
    engine: Engine[Any], settings: PrepareSettings, keys: Keys, columns: Columns | None = None
) -> LabelFile | None:
    """The label file of the settings, if they name one."""
    if settings.label_file is None:
        return None
    if is_plain(settings.label_file):
        return _from_lines(engine, settings, settings.label_file, keys)
    return _from_records(engine, settings, settings.label_file, keys, columns)


def _from_lines(engine: Engine[Any], settings: PrepareSettings, path: str, keys: Keys) -> LabelFile:
    """Lines of names."""

    def parse(line: str) -> dict[str, Any]:
        name = line.strip(WHITE)
        if keys == "label" and not name:
            raise ValueError("a label without a name")
        return {"label": name, "name": name}

    lines = LineFiles.of(engine, paths_of(settings, path))
    rows = engine.collect(engine.files(lines.table, line_step(parse, AS_LABELS, settings.label_encoding)))
    return LabelFile(_checked(rows, keys, settings), lines.count, lines.source)


def _from_records(
    engine: Engine[Any], settings: PrepareSettings, path: str, keys: Keys, fixed: Columns | None
) -> LabelFile:
    """Records, whose columns are fixed by the format or named by the settings."""
    columns = fixed or settings.columns
    wanted = LabelColumns(
        columns.label if keys == "label" else None,
        columns.name,
        columns.alt_names,
        columns.description,
        separator_of(settings) or (SEPARATORS["single"] if _suffix(path) in SEPARATED else None),
    )
    asked = Asked(
        paths_of(settings, path),
        settings.label_encoding,
        wanted,
        AS_LABELS,
        delimiter=DELIMITERS["tab" if _suffix(path) == "tsv" else settings.delimiter],
    )
    is_table = path.startswith(TABLE) or _suffix(path) == "parquet"
    read = parquet_records if is_table else separated_records if _suffix(path) in SEPARATED else json_records
    records = read(engine, asked)
    if keys == "position" and not records.count:
        raise ConfigError(f"the rows of {records.source} have no order, so they cannot be found by label number")
    rows = _checked(engine.collect(records.rows), keys, settings)
    if columns.name and not pc.any(pc.not_equal(pc.utf8_trim(rows["name"], " "), "")).as_py():
        raise _no_names(records.source, columns.name, fixed is not None)
    return LabelFile(rows, records.count, records.source)


def _checked(rows: pa.Table, keys: Keys, settings: PrepareSettings) -> pa.Table:
    """The labels in their order, found by their positions where they are numbers; none of them may have a problem."""
    problems = rows.filter(rows["problem"].is_valid()).select(["position", "problem"]).to_pylist()
    if problems:
        raise unusable("labels", len(problems), first_problems(problems))
    ordered = rows.sort_by("position")
    if keys == "position":
        numbers = pc.add(ordered["position"], settings.first_label).cast(pa.string())
        ordered = ordered.set_column(ordered.schema.get_field_index("label"), "label", numbers)
    return ordered.drop_columns(["problem"])


def unusable(what: str, count: int, first: list[dict[str, Any]]) -> InputError:
    """The error for rows that a reader could not use."""
    problems = "".join(f"\n  {row['problem']}" for row in first)
    return InputError(f"{count:,} of the {what} cannot be used. First:{problems}")


def _no_names(source: str, column: str, fixed: bool) -> InputError:
    """The error for a label file without names: labels would be known by their ids only, which say nothing."""
    remedy = (
        "leave out prepare.label_file if they have none"
        if fixed
        else "set prepare.columns.name to what holds the names, or to null if they have none"
    )
    return InputError(f"{source}: no label has a name, since no record has {column!r}; {remedy}")


def _suffix(path: str) -> str:
    bare = path.rstrip("/").removesuffix(".gz")
    return bare.rpartition(".")[2].lower()
