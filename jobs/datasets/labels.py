"""The labels of a dataset: what is known of them apart from the texts; their numbers, frequencies and groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import ConfigError, InputError
from fusion.labels import bounded_groups, pareto_groups, parse_bounds
from fusion.types import Array
from jobs.datasets.kept import Texts
from jobs.datasets.readers import (
    TABLE,
    Asked,
    LineFiles,
    RawDataset,
    json_records,
    parquet_records,
    separated_records,
    separator_of,
    unusable,
)
from jobs.engines.engine import Engine
from jobs.runtime.log import log
from jobs.settings.prepare import Columns, PrepareSettings, paths_of
from udfs.datasets.prepared import SHOWN, SUM_LABELS, carriers_step, first_problems, label_counts_step
from udfs.datasets.records import AS_LABELS, SEPARATORS, LabelColumns
from udfs.datasets.separated import DELIMITERS
from udfs.datasets.texts import WHITE, line_step
from udfs.lists import forms_warning, id_order, in_two_forms

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


@dataclass(frozen=True)
class Vocabulary:
    """Label n of the dataset is row n: its label as published, its frequency and its group."""

    labels: pa.Array
    frequencies: Array
    """How many texts carry each label."""
    training: Array
    """How many of them are training texts, where there is one fold; else the same."""
    groups: Array
    unused: int
    """How many labels no text carries, whether kept or not."""

    def table(self, known: pa.Table | None) -> pa.Table:
        """The table `labels`: what is known about each label, with its number, frequency and group. No nulls."""
        row = pc.index_in(self.labels, value_set=known["label"].combine_chunks()) if known is not None else None

        def column(name: str, kind: pa.DataType) -> pa.Array:
            nothing = pa.nulls(len(self.labels), kind)
            return known[name].combine_chunks().take(row) if known is not None else nothing

        name = pc.fill_null(pc.utf8_trim(column("name", pa.string()), " "), "")
        others = column("alt_names", pa.list_(pa.string())).to_pylist()
        return pa.table(
            {
                "label_id": pa.array(np.arange(len(self.labels), dtype=np.int32)),
                "label": self.labels,
                "name": pc.if_else(pc.equal(name, ""), self.labels, name),
                "alt_names": pa.array(
                    [[other for other in given or () if other and other.strip(" ")] for given in others],
                    pa.list_(pa.string()),
                ),
                "description": pc.fill_null(column("description", pa.string()), ""),
                "frequency": pa.array(self.frequencies, pa.int64()),
                "label_group": pa.array(self.groups.tolist(), pa.string()),
            }
        )


def make_vocabulary(texts: Texts, raw: RawDataset, settings: PrepareSettings) -> Vocabulary:
    """Number the labels: in the order of the label file, or else by themselves (numbers first, by value)."""
    engine, source = texts.engine, raw.label_source
    counted = engine.map(texts.rows(), label_counts_step(texts.kept, texts.division))
    used = engine.collect(engine.group(counted, ["label"], SUM_LABELS))
    used_labels = used["label"].combine_chunks()
    if raw.labels is None:
        labels = _sorted_labels(used_labels)
    else:
        labels = _listed_labels(raw.labels, source)
        unknown = used_labels.filter(pc.invert(pc.is_in(used_labels, value_set=labels)))
        if len(unknown):
            raise _unknown_labels(texts, unknown, source)
    for same in in_two_forms(labels.to_pylist())[:SHOWN]:
        log(forms_warning(same, dict.fromkeys(same, source or "the texts")))
    frequencies, training = (_counts(labels, used_labels, used[name]) for name in ("texts", "training_texts"))
    unused = int((frequencies == 0).sum())
    if settings.unused_labels == "drop":
        kept = frequencies > 0
        labels, frequencies, training = labels.filter(pa.array(kept)), frequencies[kept], training[kept]
    if settings.label_groups is None:
        groups = pareto_groups(np.arange(len(labels)), frequencies, settings.head_share)
    else:
        groups = bounded_groups(training, parse_bounds(settings.label_groups))
    return Vocabulary(labels, frequencies, training, groups, unused)


def _counts(labels: pa.Array, used_labels: pa.Array, counts: pa.ChunkedArray) -> Array:
    """The count of each label; 0 for those that are not in use."""
    place = pc.fill_null(pc.index_in(labels, value_set=used_labels), len(used_labels)).to_numpy()
    return np.append(counts.to_numpy(), 0)[place].astype(np.int64)


def _sorted_labels(labels: pa.Array) -> pa.Array:
    return pa.array(sorted(labels.to_pylist(), key=id_order), pa.string())


def _listed_labels(listed: pa.Table, source: str) -> pa.Array:
    """The labels of a label file in its order, each once."""
    labels = listed["label"].combine_chunks()
    counts = labels.value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1)).field("values")
    if len(repeated):
        # In the order in which they first occur, which is that of the file.
        first = ", ".join(map(repr, repeated[:SHOWN].to_pylist()))
        raise InputError(
            f"{source}: {len(repeated):,} labels are listed more than once (or with different names): {first}"
        )
    # The rows of a catalog table have no positions.
    return _sorted_labels(labels) if listed["position"].null_count else labels


def _unknown_labels(texts: Texts, labels: pa.Array, source: str) -> InputError:
    """The error for labels of texts that the label file lacks."""
    named = sorted(labels.to_pylist(), key=id_order)[:SHOWN]
    carriers = texts.engine.collect(texts.engine.map(texts.rows(), carriers_step(texts.kept, named)))
    first = {label: min(row["text_id"] for row in carriers.to_pylist() if row["label"] == label) for label in named}
    lines = "".join(f"\n  {label!r}, first at text {first[label]}" for label in named)
    return InputError(
        f"{source} has no name for {len(labels):,} labels that texts carry; add them there, or leave out "
        f"prepare.label_file. First:{lines}"
    )
