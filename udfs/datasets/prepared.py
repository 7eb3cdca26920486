"""Steps over texts that have been read: what is counted of them, and the tables that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.types import Array, Ints
from udfs.datasets.dividing import ROLES, Division, hashed, unit_of
from udfs.steps import Batches, Step, key_starts, whole_keys

SHOWN = 5
"""How many offenders a message names."""

SUMMARY = pa.schema(
    [
        *((name, pa.int64()) for name in ("texts_read", "empty_texts", "texts_without_labels", "good", "problems")),
        ("whole_ids", pa.bool_()),
        ("roles", pa.list_(pa.string())),
        ("first", pa.list_(pa.struct([("position", pa.int64()), ("problem", pa.string())]))),
    ]
)
SUMMARY_COLUMNS = ("position", "text_id", "words", "labels", "role", "problem")


def _summary(batches: Batches) -> Batches:
    for batch in batches:
        good, empty = _is_good(batch), pc.equal(batch["words"], 0)
        problems = batch.filter(batch["problem"].is_valid()).select(["position", "problem"])
        row = {
            "texts_read": batch.num_rows,
            "empty_texts": pc.sum(empty).as_py() or 0,
            "texts_without_labels": batch.num_rows - (pc.sum(pc.or_(good, empty)).as_py() or 0),
            "good": pc.sum(good).as_py() or 0,
            "problems": problems.num_rows,
            "whole_ids": pc.all(_is_whole(batch["text_id"]), min_count=0).as_py(),
            "roles": pc.unique(batch["role"].filter(good)).drop_null().to_pylist(),
            "first": first_problems(problems.to_pylist()),
        }
        yield pa.RecordBatch.from_pylist([row], SUMMARY)


SUMMARIZE = Step(_summary, SUMMARY)
"""How many texts were read, how many of them can be used, and the first that are refused."""


def first_problems(problems: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first few, in the order of the files; rows of a catalog table by what is wrong with them."""

    def order(row: Mapping[str, Any]) -> tuple[int, str]:
        return (-1 if row["position"] is None else row["position"], row["problem"])

    return sorted(problems, key=order)[:SHOWN]


def _is_good(batch: pa.RecordBatch) -> pa.Array:
    has_labels = pc.greater(pc.fill_null(pc.list_value_length(batch["labels"]), 0), 0)
    return pc.and_(pc.greater(batch["words"], 0), has_labels)


def _is_whole(ids: pa.Array) -> pa.Array:
    """Which ids are whole numbers of 64 bits as they are written: 07 is not the same id as 7."""
    # Eighteen digits always fit, and no dataset has more texts.
    return pc.match_substring_regex(ids, r"^(0|-?[1-9][0-9]{0,17})$")


@dataclass(frozen=True)
class Kept:
    """The texts of a dataset among those that were read, in their final form."""

    ids: pa.DataType
    """The type of text ids: whole numbers if all ids are, strings otherwise."""
    text_is_key: bool
    dropped: frozenset[str | int] = frozenset()
    limit: tuple[int, str | int] | None = None
    """The hash and the id of the last text within the limit."""
    seed: int = 0

    def good(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The texts that have words and labels, with ids of the final type."""
        place = batch.schema.get_field_index("text_id")
        typed = batch.set_column(place, "text_id", batch["text_id"].cast(self.ids))
        return typed.filter(_is_good(batch))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows = self.good(batch)
        if self.dropped or self.limit is not None:
            rows = rows.filter(pa.array([self._within(text_id) for text_id in rows["text_id"].to_pylist()], pa.bool_()))
        return rows

    def _within(self, text_id: str | int) -> bool:
        if text_id in self.dropped:
            return False
        return self.limit is None or (hashed(self.seed, "limit", text_id), text_id) <= self.limit

    def units(self, rows: pa.RecordBatch) -> list[str]:
        """What each text stays together with."""
        keys = rows["digest" if self.text_is_key else "key"].to_pylist()
        return list(map(unit_of, rows["text_id"].to_pylist(), keys))


GOOD_COLUMNS = ("text_id", "words", "digest", "labels", "key", "role")


def ids_step(kept: Kept) -> Step:
    """The ids of all rows, of the final type."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch["text_id"].cast(kept.ids)], ["text_id"])

    return Step(run, pa.schema([("text_id", kept.ids)]))


def repeated_step(kept: Kept) -> Step:
    """Of ids that are grouped: how many occur more than once, and the first of them."""
    schema = pa.schema([("count", pa.int64()), ("first", pa.list_(kept.ids))])

    def run(batches: Batches) -> Batches:
        for table in whole_keys(batches, ["text_id"]):
            starts = key_starts(table, ["text_id"])
            repeated = starts[np.diff(np.append(starts, len(table))) > 1]
            if len(repeated):
                first = table["text_id"].take(pa.array(repeated[:SHOWN])).to_pylist()
                yield pa.RecordBatch.from_pylist([{"count": len(repeated), "first": first}], schema)

    return Step(run, schema)


def units_step(kept: Kept) -> Step:
    """What is looked at to find identical texts."""
    schema = pa.schema([("digest", pa.string()), ("text_id", kept.ids), ("unit", pa.string()), ("role", pa.string())])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kept.good(batch)
            columns = [rows["digest"], rows["text_id"], pa.array(kept.units(rows), pa.string()), rows["role"]]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Step(run, schema)


def identical_step(kept: Kept) -> Step:
    """Of rows that are grouped by digest and sorted by id: one row for each text that several ids have."""
    schema = pa.schema(
        [
            ("text_ids", pa.list_(kept.ids)),
            # Only what differs: each once.
            ("units", pa.list_(pa.string())),
            ("roles", pa.list_(pa.string())),
        ]
    )

    def run(batches: Batches) -> Batches:
        for table in whole_keys(batches, ["digest"]):
            starts = key_starts(table, ["digest"])
            sizes = np.diff(np.append(starts, len(table)))
            rows = []
            for start, size in zip(starts[sizes > 1].tolist(), sizes[sizes > 1].tolist(), strict=True):
                same = table.slice(start, size)
                columns = {"text_ids": same["text_id"], "units": same["unit"].unique(), "roles": same["role"].unique()}
                rows.append({name: column.to_pylist() for name, column in columns.items()})
            if rows:
                yield pa.RecordBatch.from_pylist(rows, schema)

    return Step(run, schema)


def smallest_step(kept: Kept, below: int) -> Step:
    """The texts whose hash is below a number."""
    schema = pa.schema([("hash", pa.int64()), ("text_id", kept.ids)])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            ids = kept(batch)["text_id"].to_pylist()
            hashes = [hashed(kept.seed, "limit", text_id) for text_id in ids]
            rows = [(number, text_id) for number, text_id in zip(hashes, ids, strict=True) if number < below]
            yield pa.RecordBatch.from_pylist([{"hash": number, "text_id": text_id} for number, text_id in rows], schema)

    return Step(run, schema)


COUNTED_LABELS = pa.schema([("label", pa.string()), ("texts", pa.int64()), ("training_texts", pa.int64())])


def label_counts_step(kept: Kept, division: Division) -> Step:
    """How many texts, and how many of them for training in the only fold, carry each label: by batch."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kept(batch)
            training = np.ones(rows.num_rows, np.bool_)
            if division.folds == 1:
                training = division.roles(kept.units(rows), rows["role"].to_pylist())[:, 0] == ROLES.index("train")
            row = pc.list_parent_indices(rows["labels"]).to_numpy()
            table = pa.table(
                {"label": pc.list_flatten(rows["labels"]), "training": pa.array(training[row].astype(np.int64))}
            )
            counted = table.group_by("label").aggregate([("training", "count"), ("training", "sum")])
            yield from _named(counted.select(["label", "training_count", "training_sum"]), COUNTED_LABELS)

    return Step(run, COUNTED_LABELS)


def _named(table: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """A table with other names for its columns, as batches."""
    batches: list[pa.RecordBatch] = table.rename_columns(schema.names).cast(schema).combine_chunks().to_batches()
    return batches


def _sum_labels(batches: Batches) -> Batches:
    for table in whole_keys(batches, ["label"]):
        starts = key_starts(table, ["label"])
        sums = [np.add.reduceat(table[name].to_numpy(), starts) for name in COUNTED_LABELS.names[1:]]
        columns = [table["label"].combine_chunks().take(pa.array(starts)), *map(pa.array, sums)]
        yield pa.RecordBatch.from_arrays(columns, schema=COUNTED_LABELS)


SUM_LABELS = Step(_sum_labels, COUNTED_LABELS)
"""The counts of each label, from those of batches, which are grouped by label."""


def carriers_step(kept: Kept, labels: Sequence[str]) -> Step:
    """The first text of a batch that carries each of some labels."""
    schema = pa.schema([("label", pa.string()), ("text_id", kept.ids)])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kept(batch)
            pairs = pa.table(
                {
                    "label": pc.list_flatten(rows["labels"]),
                    "text_id": rows["text_id"].take(pc.list_parent_indices(rows["labels"])),
                }
            )
            wanted = pairs.filter(pc.is_in(pairs["label"], value_set=pa.array(labels, pa.string())))
            first = wanted.group_by("label").aggregate([("text_id", "min")])
            yield from _named(first.select(["label", "text_id_min"]), schema)

    return Step(run, schema)


@dataclass(frozen=True)
class LabelNumbers:
    """The labels of a dataset: label n is the n-th."""

    labels: pa.Array

    @cached_property
    def _number(self) -> Mapping[str, int]:
        return {label: number for number, label in enumerate(self.labels.to_pylist())}

    def __getstate__(self) -> dict[str, Any]:
        return {"labels": self.labels}

    def of(self, labels: pa.Array) -> pa.Array:
        """Lists of labels as sorted lists of their numbers."""
        number = self._number
        return pa.array(
            [sorted(number[label] for label in of_text) for of_text in labels.to_pylist()], pa.list_(pa.int32())
        )


def samples_step(kept: Kept, numbers: LabelNumbers) -> Step:
    """The table `samples`."""
    schema = pa.schema(
        [("text_id", kept.ids), ("text", pa.string()), ("label_ids", pa.list_(pa.int32())), ("words", pa.int32())]
    )

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kept(batch)
            columns = [rows["text_id"], rows["text"], numbers.of(rows["labels"]), rows["words"]]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Step(run, schema)


def folds_step(kept: Kept, division: Division) -> Step:
    """The table `folds`."""
    schema = pa.schema([("fold", pa.int32()), ("text_id", kept.ids), ("role", pa.string())])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kept(batch)
            roles = division.roles(kept.units(rows), rows["role"].to_pylist())
            columns = [
                pa.array(np.tile(np.arange(division.folds, dtype=np.int32), rows.num_rows)),
                rows["text_id"].take(pa.array(np.repeat(np.arange(rows.num_rows), division.folds))),
                pa.array(np.array(ROLES, object)[roles.ravel()], pa.string()),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return Step(run, schema)


NO_LABEL = -1
"""Stands for the texts themselves where texts are counted by label."""
ROLE_COUNTS = pa.schema([("fold", pa.int32()), ("label_id", pa.int32()), *((role, pa.int64()) for role in ROLES)])


def role_counts_step(kept: Kept, division: Division, numbers: LabelNumbers) -> Step:
    """How many texts of each role carry a label, by fold and label."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = kept(batch)
            roles = division.roles(kept.units(rows), rows["role"].to_pylist())
            lists = numbers.of(rows["labels"])
            row = np.concatenate((np.arange(rows.num_rows), pc.list_parent_indices(lists).to_numpy()))
            label = np.concatenate((np.full(rows.num_rows, NO_LABEL), pc.list_flatten(lists).to_numpy()))
            yield _counted_roles(np.tile(label, division.folds), roles[row].T)

    return Step(run, ROLE_COUNTS)


def _counted_roles(label: Ints, roles: Array) -> pa.RecordBatch:
    """From the labels of pairs, for each fold again, and the roles of their texts, folds by pairs."""
    folds = np.repeat(np.arange(len(roles)), roles.shape[1])
    width = int(label.max(initial=NO_LABEL)) + 2
    keys, place = np.unique(folds * width + label + 1, return_inverse=True)
    flat = roles.ravel()
    counts = [np.bincount(place[flat == role], minlength=len(keys)) for role in range(len(ROLES))]
    columns = [keys // width, keys % width - 1, *counts]
    return pa.RecordBatch.from_arrays(
        [pa.array(column).cast(kind.type) for column, kind in zip(columns, ROLE_COUNTS, strict=True)],
        schema=ROLE_COUNTS,
    )


PAIRS = pa.schema(
    [
        ("fold", pa.int32()),
        ("label_group", pa.string()),
        *((name, pa.int64()) for name in ("only_in_test", "test_pairs", "cold_pairs", *ROLES)),
    ]
)


def pairs_step(groups: pa.Array) -> Step:
    """Of those counts, grouped by fold and label: what is known of the pairs of each label group, and in rows without a
    group the texts of each role. `groups` has the group of each label."""
    keys = ["fold", "label_id"]

    def run(batches: Batches) -> Batches:
        # The last one is that of NO_LABEL.
        group_of = np.array([*groups.to_pylist(), None], object)
        for table in whole_keys(batches, keys):
            starts = key_starts(table, keys)
            sums = {role: np.add.reduceat(table[role].to_numpy(), starts) for role in ROLES}
            cold, test = sums["train"] == 0, sums["test"]
            fold, label = (table[name].to_numpy()[starts] for name in keys)
            figures = {
                "only_in_test": (cold & (sums["validation"] == 0) & (test > 0)).astype(np.int64),
                "test_pairs": test,
                "cold_pairs": np.where(cold, test, 0),
                **sums,
            }
            rows = pa.table({"fold": fold, "label_group": pa.array(group_of[label], pa.string()), **figures})
            added = rows.group_by(["fold", "label_group"]).aggregate([(name, "sum") for name in figures])
            yield from _named(added, PAIRS)

    return Step(run, PAIRS)
