"""The inputs as Arrow tables in this process, for the engine `local`: in memory, or in files of this machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import InputError
from fusion.statistics.watchers import FEWEST_WORDS, UNKNOWN
from fusion.types import Ints
from jobs.inputs.readers import read_parquet_files, read_trec
from jobs.inputs.sources import (
    LISTS,
    QRELS_FIELDS,
    RUN_FIELDS,
    SHOWN_LINES,
    UNSIGNED,
    Source,
    check_columns,
    judgement_columns,
    require,
    run_columns,
    source_format,
    typed_ids,
    widest,
)
from jobs.inputs.tables import FOLD, Frequencies, Placed, RowTypes
from jobs.storage.versions import resolve
from udfs.lists import JUDGEMENT, LabelGroups, number_labels
from udfs.run_tables import read_jsonl_run, read_ranx_run

ABOVE_ZERO = float(np.nextafter(0, 1))
"""The lowest grade that counts in a graded measure."""


class Judgement(NamedTuple):
    """A line of a qrels file."""

    line: int
    text_id: str
    label_id: str
    grade: float


def repeated_judgements(source: str, judgements: Iterable[Judgement]) -> InputError:
    """The error for labels that are judged twice, with their lines."""
    lines: dict[tuple[str, str], list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        lines[judgement.text_id, judgement.label_id].append(judgement)
    shown = []
    for (text, label), same in list(lines.items())[:SHOWN_LINES]:
        kind = "contradict each other" if len({judgement.grade for judgement in same}) > 1 else "repeat each other"
        where = " and ".join(f"line {judgement.line:,} (grade {judgement.grade:g})" for judgement in same[:SHOWN_LINES])
        shown.append(f"\n  text {text!r}, label {label!r}: {where} {kind}")
    return InputError(f"{source}: a label is judged more than once; keep one judgement of each:{''.join(shown)}")


def check_repeated(lines: pa.Table, source: str) -> None:
    """Refuse lines (text_id, label_id, relevance, line) that judge a label of a text twice."""
    counted = lines.group_by(["text_id", "label_id"]).aggregate([("line", "count"), ("line", "min")])
    twice = counted.filter(pc.greater(counted["line_count"], 1))
    if not len(twice):
        return
    first = twice.sort_by("line_min").slice(0, SHOWN_LINES)
    same = lines.join(first.select(["text_id", "label_id"]), ["text_id", "label_id"], join_type="inner")
    rows = same.sort_by("line").select(["line", "text_id", "label_id", "relevance"]).to_pylist()
    raise repeated_judgements(source, (Judgement(*row.values()) for row in rows))


def kept_from(judgements: pa.Table, lowest: float) -> pa.Table:
    """The labels of each text (label_ids, grades) with this grade or a higher one; all texts stay. Grades that are no
    numbers and labels that are judged twice stay, too, and are reported on the way to the kernel."""
    labels, grades = (judgements[name].combine_chunks() for name in ("label_ids", "grades"))
    numbers = pc.list_flatten(grades).cast(pa.float64())
    low = pc.and_(pc.less(numbers, lowest), pc.is_finite(numbers))
    sizes = pc.fill_null(pc.list_value_length(grades), 0).to_numpy()
    kept = pc.or_(pc.invert(pc.fill_null(low, False)), _repeated(labels))
    before = np.append(0, np.cumsum(kept.to_numpy(zero_copy_only=False)))
    offset = pa.array(before[np.append(0, np.cumsum(sizes))], pa.int32())
    columns: Mapping[str, pa.Array] = {"label_ids": labels, "grades": grades}
    for name, lists in columns.items():
        chosen = pa.ListArray.from_arrays(offset, pc.list_flatten(lists).filter(kept))
        judgements = judgements.set_column(judgements.schema.get_field_index(name), name, chosen)
    return judgements


def _repeated(lists: pa.ListArray) -> pa.Array:
    """Which elements stand more than once in their list."""
    encoded = pc.list_flatten(lists).dictionary_encode(null_encoding="encode")
    owner = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    pairs = owner * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
    _, place, times = np.unique(pairs, return_inverse=True, return_counts=True)
    return pa.array(times[place] > 1)


def check_same_length(judgements: pa.Table, source: str) -> None:
    """Refuse lists of labels and grades that do not fit each other."""
    lengths = [pc.fill_null(pc.list_value_length(judgements[name]), -1) for name in ("label_ids", "grades")]
    bad = pc.not_equal(*lengths)
    if pc.any(bad).as_py():
        text = judgements["text_id"].filter(bad)[0].as_py()
        raise InputError(f"{source}: label_ids and grades of unequal length, first at text {text!r}")


ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "float": pa.float32(),
    "double": pa.float64(),
}
"""Spark's types, in Arrow."""
SPARK = {**{kind: name for name, kind in ARROW.items()}, pa.decimal128(20): UNSIGNED}
JSON_READERS = {"jsonl": read_jsonl_run, "ranx": read_ranx_run}


class LocalTables:
    """The inputs of the engine `local`."""

    def read(self, source: Source, name: str) -> pa.Table:
        """A Parquet file or folder, or a table in memory."""
        if isinstance(source, str):
            source = read_parquet_files(resolve(source_format(source)[1]), name)
        check_columns(source.column_names, name)
        return plain_types(source)

    def read_run(self, source: Source, name: str) -> pa.Table:
        if _is_trec(source):
            lines = read_trec(_resolved_path(source), name, RUN_FIELDS, "score")
            return lines.select(["text_id", "label_id", "score"])
        if isinstance(source, str) and source_format(source)[0] in JSON_READERS:
            table = plain_types(JSON_READERS[source_format(source)[0]](_resolved_path(source), name))
        else:
            table = self.read(source, name)
        require(self.columns(table), name, run_columns(self.columns(table)))
        return table

    def read_judgements(self, source: Source, name: str) -> pa.Table:
        if _is_trec(source):
            lines = read_trec(_resolved_path(source), name, QRELS_FIELDS, "relevance")
            check_repeated(lines, name)
            table = lines.rename_columns({"relevance": "grade"})
        else:
            table = self.read(source, name)
        wanted = judgement_columns(self.columns(table))
        require(self.columns(table), name, wanted)
        chosen = table.select(wanted)
        if "label_ids" not in wanted:
            return _grouped(chosen, ["text_id"])
        if "grades" in wanted:
            check_same_length(chosen, name)
        return chosen

    def has_grades(self, judgements: pa.Table) -> bool:
        if "grades" not in judgements.column_names:
            return False
        grades = pc.list_flatten(judgements["grades"]).cast(pa.float64())
        return not pc.all(pc.is_in(grades, value_set=pa.array([0.0, 1.0])), min_count=0).as_py()

    def graded_from(self, judgements: pa.Table, lowest: float) -> pa.Table:
        return kept_from(judgements, lowest)

    def relevant_only(self, judgements: pa.Table, relevant_from: float) -> pa.Table:
        if "grades" not in judgements.column_names:
            return judgements
        return kept_from(judgements, relevant_from).drop_columns(["grades"])

    def columns(self, table: pa.Table) -> dict[str, str]:
        return {field.name: type_name(field.type) for field in table.schema}

    def arrow(self, table: pa.Table, columns: Sequence[str]) -> pa.Table:
        return table.select(columns)

    def distinct(self, table: pa.Table, column: str) -> list[Any]:
        values: list[Any] = table[column].unique().to_pylist()
        return values

    def first_values(self, table: pa.Table, column: str, most: int) -> list[str]:
        return [str(value) for value in table[column].unique().sort()[:most].to_pylist()]

    def is_empty(self, table: pa.Table) -> bool:
        return not len(table)

    def has_nulls(self, table: pa.Table, column: str) -> bool:
        return bool(table[column].null_count)

    def first_repeated(self, table: pa.Table, columns: Sequence[str]) -> dict[str, Any] | None:
        counted = table.group_by(list(columns)).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).select(columns)
        return next(iter(twice.sort_by([(name, "ascending") for name in columns]).slice(0, 1).to_pylist()), None)

    def size(self, table: pa.Table) -> int:
        return len(table)

    def equal(self, table: pa.Table, column: str, value: str | int, nulls: bool = False) -> pa.Table:
        return table.filter(pc.fill_null(pc.equal(table[column], value), nulls))

    def unequal(self, table: pa.Table, column: str, value: str) -> pa.Table:
        return table.filter(pc.not_equal(table[column], value))

    def without(self, table: pa.Table, column: str) -> pa.Table:
        return table.drop_columns([column])

    def having(self, table: pa.Table, column: str, ids: Sequence[str]) -> pa.Table:
        wanted = pa.array(typed_ids(type_name(table[column].type), ids), table[column].type)
        return table.filter(pc.is_in(table[column], value_set=wanted))

    def with_texts(self, table: pa.Table, others: Sequence[pa.Table], among: bool) -> pa.Table:
        # As strings, in which all ids can be compared.
        known = pa.concat_arrays([other["text_id"].cast(pa.string()).combine_chunks() for other in others])
        inside = pc.is_in(table["text_id"].cast(pa.string()), value_set=known)
        return table.filter(inside if among else pc.invert(inside))

    def frequencies(self, judgements: pa.Table) -> Frequencies:
        counted = pc.list_flatten(judgements["label_ids"]).drop_null().value_counts()
        ids, counts = counted.field("values"), counted.field("counts")
        order = pa.array(np.argsort(number_labels(ids)[0]))
        return Frequencies(ids.take(order), counts.take(order).to_numpy())

    def accented_labels(self, table: pa.Table) -> list[str]:
        column = table["label_ids" if "label_ids" in table.column_names else "label_id"]
        labels = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        if not pa.types.is_string(labels.type):
            return []
        accented: list[str] = labels.filter(pc.invert(pc.string_is_ascii(labels))).unique().to_pylist()
        return accented

    def unseen_labels(self, judgements: pa.Table, roles: pa.Table) -> dict[int, pa.Array]:
        unseen = {}
        held_out = roles.filter(pc.not_equal(roles["role"], "train"))
        for fold in sorted(held_out["fold"].unique().to_pylist()):
            of_fold = held_out.filter(pc.equal(held_out["fold"], fold))
            test = of_fold["text_id"].filter(pc.equal(of_fold["role"], "test"))
            labels = _labels_of(judgements, _among(judgements["text_id"], test))
            others = _labels_of(judgements, pc.invert(_among(judgements["text_id"], of_fold["text_id"])))
            unseen[fold] = labels.filter(pc.invert(pc.is_in(labels, value_set=others)))
        return unseen

    def in_fold(self, table: pa.Table, folds: pa.Table | None) -> pa.Table:
        if folds is None:
            return _with_column(table, "fold", pa.array(np.full(len(table), FOLD, np.int32)))
        if "fold" in table.column_names:
            return table
        # A row without a text stays, to be reported on the way to the kernel.
        nobody = pa.table({"text_id": [None], "fold": [FOLD]}, folds.select(["text_id", "fold"]).schema)
        folds = pa.concat_tables([folds.select(["text_id", "fold"]), nobody])
        ids = table["text_id"].combine_chunks(), folds["text_id"].combine_chunks()
        common = ARROW[widest([type_name(column.type) for column in ids])]
        row, fold_row = _join(*(column.cast(common) for column in ids))
        return _with_column(table.take(pa.array(row)), "fold", folds["fold"].combine_chunks().take(pa.array(fold_row)))

    def list_rows(self, run: pa.Table, place: Placed, types: RowTypes) -> pa.Table:
        if "label_ids" not in run.column_names or place.divided != ("label_group" in run.column_names):
            run = _as_lists(run, place)
        code = np.full(len(run), place.first_code, np.int32)
        if place.divided:
            code += pc.index_in(run["label_group"], value_set=pa.array(place.slots)).to_numpy().astype(np.int32)
        rows = _cast(_with_column(run, "list", pa.array(code)), types)
        return _with_column(rows, "scores", _negated(rows["scores"].combine_chunks())) if place.distances else rows

    def judgement_rows(self, judgements: pa.Table, types: RowTypes) -> pa.Table:
        labels = judgements["label_ids"].combine_chunks()
        sizes = pc.fill_null(pc.list_value_length(labels), 0).to_numpy()
        offset = pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32())
        scores = pa.ListArray.from_arrays(offset, pa.array(np.zeros(sizes.sum())), mask=labels.is_null())
        if "grades" in judgements.column_names:
            scores = judgements["grades"]
        code = np.full(len(labels), JUDGEMENT, np.int32)
        if "words" in judgements.column_names:
            words = pc.fill_null(judgements["words"], UNKNOWN).to_numpy()
            code -= np.searchsorted(FEWEST_WORDS, words, side="right").astype(np.int32)
        return _cast(_with_column(_with_column(judgements, "list", pa.array(code)), "scores", scores), types)

    def union(self, tables: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(tables)


def type_name(kind: pa.DataType) -> str:
    """An Arrow type as Spark calls it."""
    return f"array<{type_name(kind.value_type)}>" if pa.types.is_list(kind) else SPARK.get(kind, str(kind))


def plain_types(table: pa.Table) -> pa.Table:
    """The same rows without the many ways in which Arrow can hold strings, lists and small numbers."""
    for place, field in enumerate(table.schema):
        # Only where it must be: pyarrow cannot cast lists that hold nothing but nulls, which are refused later.
        if _plain(field.type) != field.type:
            table = table.set_column(place, field.name, table[place].cast(_plain(field.type)))
    return table


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_uint64(kind):
        return pa.decimal128(20)
    if pa.types.is_integer(kind):
        return pa.int32() if kind.bit_width < 32 or kind == pa.int32() else pa.int64()
    return pa.float32() if pa.types.is_float16(kind) else kind


def _is_trec(source: Source) -> bool:
    return isinstance(source, str) and source_format(source)[0] == "trec"


def _resolved_path(source: str) -> str:
    return resolve(source_format(source)[1])


def _with_column(table: pa.Table, name: str, values: Any) -> pa.Table:
    place = table.schema.get_field_index(name)
    return table.append_column(name, values) if place < 0 else table.set_column(place, name, values)


def _join(left: pa.Array, right: pa.Array) -> tuple[Ints, Ints]:
    """The rows of two columns that hold the same value, as pairs of row numbers in the order of the left one."""
    values = right.unique()
    of_left = pc.fill_null(pc.index_in(left, value_set=values), len(values)).to_numpy()
    of_right = pc.index_in(right, value_set=values).to_numpy()
    order = np.argsort(of_right, kind="stable")
    sizes = np.append(np.bincount(of_right, minlength=len(values)), 0)
    first = np.cumsum(sizes) - sizes
    count = sizes[of_left]
    row = np.repeat(np.arange(len(left)), count)
    within = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    return row, order[first[of_left][row] + within]


def _as_lists(run: pa.Table, place: Placed) -> pa.Table:
    """Long rows, or lists that are not divided by label group as they should be, as one row per list."""
    keys = ["text_id", "fold"]
    if "label_ids" in run.column_names:
        run = _exploded(run)
    if place.divided:
        keys.append("label_group")
        if "label_group" not in run.column_names:
            assert place.groups is not None
            run = _with_column(run, "label_group", _group_names(run["label_id"].combine_chunks(), place.groups))
    return _grouped(run.select([*keys, "label_id", "score"]), keys)


def _group_names(labels: pa.Array, groups: LabelGroups) -> pa.Array:
    """The group of each label. One without a group goes to any list; it is reported on the way to the kernel."""
    codes = np.maximum(groups.lookup(labels), 0)
    return pa.array(groups.names, pa.string()).take(pa.array(codes))


def _exploded(run: pa.Table) -> pa.Table:
    """One row per candidate of lists; unequal lists are filled up with nulls, which are reported later."""
    lengths = [pc.fill_null(pc.list_value_length(run[name]), 0).to_numpy() for name in LISTS]
    longer = np.maximum(*lengths)
    owner = np.repeat(np.arange(len(run)), longer)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(longer) - longer, longer)
    long = run.drop_columns(list(LISTS)).take(pa.array(owner))
    for name, single, sizes in zip(LISTS, ("label_id", "score"), lengths, strict=True):
        first = (np.cumsum(sizes) - sizes)[owner]
        entry = pa.array(first + place, mask=place >= sizes[owner])
        long = long.append_column(single, pc.list_flatten(run[name].combine_chunks()).take(entry))
    return long


def _grouped(rows: pa.Table, keys: list[str]) -> pa.Table:
    """One row per key; the other columns become lists."""
    values = [name for name in rows.column_names if name not in keys]
    lists = rows.group_by(keys, use_threads=False).aggregate([(name, "list") for name in values])
    plural = {f"{name}_list": f"{name}s" for name in values}
    return lists.rename_columns([plural.get(name, name) for name in lists.column_names])


def _negated(lists: pa.ListArray) -> pa.ListArray:
    """The same lists with the opposite numbers; 0 stays 0, without a sign."""
    numbers = pc.subtract(pa.scalar(0, lists.type.value_type), lists.values)
    return pa.Array.from_buffers(
        lists.type, len(lists), lists.buffers()[:2], lists.null_count, lists.offset, children=[numbers]
    )


def _cast(rows: pa.Table, types: RowTypes) -> pa.Table:
    schema = pa.schema(
        [
            ("text_id", ARROW[types.text]),
            ("fold", pa.int32()),
            ("list", pa.int32()),
            ("label_ids", pa.list_(ARROW[types.label])),
            ("scores", pa.list_(ARROW[types.score])),
        ]
    )
    return rows.select(schema.names).cast(schema)


def _labels_of(judgements: pa.Table, chosen: pa.ChunkedArray) -> pa.Array:
    """The labels that some texts carry."""
    return pc.list_flatten(judgements.filter(chosen)["label_ids"]).drop_null().unique()


def _among(ids: pa.ChunkedArray, others: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which ids are among others, whose type may be another."""
    common = ARROW[widest([type_name(column.type) for column in (ids, others)])]
    return pc.is_in(ids.cast(common), value_set=others.cast(common).combine_chunks())
