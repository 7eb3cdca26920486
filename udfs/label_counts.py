"""How many judged texts carry each label: of all texts, and by fold and role of the text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from udfs.lists import JUDGEMENT, NO_FOLD
from udfs.steps import Batches, Step, key_starts, whole_keys
from udfs.texts import is_low

ROLES = ("test", "validation", "train")
"""What a text may be to a fold; rows without a list have the place of theirs as their code."""
ANY_ROLE = -1
"""The role of what is counted over all texts."""
KEYS = ("label_id", "fold", "role")


def counts_schema(label: pa.DataType) -> pa.Schema:
    """The number of texts that carry the label; without a label, of judged texts."""
    return pa.schema([("label_id", label), ("fold", pa.int32()), ("role", pa.int32()), ("texts", pa.int64())])


def label_texts(label: pa.DataType, lowest: float | None) -> Step:
    """From judgements with their grades, sorted by text and with a row for each role that the text has in a fold, to
    counts. Labels of a lower grade are not counted. Judgements with a fold are those of training texts."""
    schema = counts_schema(label)

    def run(batches: Batches) -> Batches:
        counted: list[pa.Table] = []
        for table in whole_keys(batches, ["text_id"]):
            counted.append(_of_texts(table, lowest, schema))
            if len(counted) > MOST_TABLES:
                counted = [_added(counted)]
        yield from _added([schema.empty_table(), *counted]).to_batches()

    return Step(run, schema, adds_up=True)


def added_counts(label: pa.DataType) -> Step:
    """Counts, sorted by label, added up."""
    schema = counts_schema(label)

    def run(batches: Batches) -> Batches:
        for table in whole_keys(batches, ["label_id"]):
            yield from _added([table]).to_batches()

    return Step(run, schema)


MOST_TABLES = 32
"""Tables of counts that wait to be added up."""


def _added(tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables)
    return (
        table.group_by(list(KEYS), use_threads=False)
        .aggregate([("texts", "sum")])
        .rename_columns([*KEYS, "texts"])
        .cast(table.schema)
    )


def _of_texts(table: pa.Table, lowest: float | None, schema: pa.Schema) -> pa.Table:
    code = table["list"].to_numpy()
    starts = key_starts(table, ["text_id"])
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(code))))
    judged = code <= JUDGEMENT
    rows = table.filter(pa.array(judged))
    fold = pc.fill_null(rows["fold"], NO_FOLD).to_numpy()
    text, labels = number[judged], rows["label_ids"].combine_chunks()
    sizes = pc.fill_null(pc.list_value_length(labels), 0).to_numpy()
    flat, owner = labels.flatten(), np.repeat(np.arange(len(rows)), sizes)
    counted = flat.is_valid().to_numpy(zero_copy_only=False)
    if lowest is not None:
        grade = pc.fill_null(rows["scores"].combine_chunks().flatten(), np.nan).to_numpy(zero_copy_only=False)
        counted = counted & ~is_low(grade, lowest)
    owner, flat = owner[counted], flat.filter(pa.array(counted))
    # A text may have its judgements in several rows.
    texts = np.unique(np.stack([text, fold]), axis=1)
    pairs = pa.table(
        {
            "text": pa.array(np.concatenate([texts[0], text[owner]])),
            "label_id": pa.concat_arrays([pa.nulls(texts.shape[1], flat.type), flat]),
            "fold": pa.array(np.concatenate([texts[1], fold[owner]]).astype(np.int32)),
        }
    )
    own = pc.fill_null(table["fold"], NO_FOLD).to_numpy()[~judged]
    roles = pa.table({"text": number[~judged], "fold": own, "role": code[~judged].astype(np.int32)})
    role = np.where(pairs["fold"].to_numpy() == NO_FOLD, ANY_ROLE, ROLES.index("train"))
    every = pairs.append_column("role", pa.array(role, pa.int32()))
    tables = [_numbers(every, schema)]
    if len(roles):
        tables.append(_numbers(_with_roles(pairs, roles), schema))
    return _added(tables)


def _with_roles(pairs: pa.Table, roles: pa.Table) -> pa.Table:
    """Pairs of text and label, once for each role of the text."""
    text = roles["text"].to_numpy()
    of_text = np.bincount(text, minlength=1 + int(pairs["text"].to_numpy().max(initial=0)))
    first = np.cumsum(of_text) - of_text
    times = of_text[pairs["text"].to_numpy()]
    pair = np.repeat(np.arange(len(pairs)), times)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(times) - times, times)
    row = pa.array(np.argsort(text, kind="stable")[first[pairs["text"].to_numpy()[pair]] + within])
    some = pairs.take(pa.array(pair)).select(["text", "label_id"])
    return some.append_column("fold", roles["fold"].take(row)).append_column("role", roles["role"].take(row))


def _numbers(pairs: pa.Table, schema: pa.Schema) -> pa.Table:
    counted = pairs.group_by(list(KEYS), use_threads=False).aggregate([([], "count_all")])
    return counted.rename_columns([*KEYS, "texts"]).cast(schema)


def has_grades() -> Step:
    """Whether judgements have grades, and not only 0 and 1: one answer for every call."""
    schema = pa.schema([("graded", pa.bool_())])

    def run(batches: Batches) -> Batches:
        graded = False
        for batch in batches:
            grades = pc.list_flatten(batch["grades"]).cast(pa.float64())
            graded |= not pc.all(pc.is_in(grades, value_set=pa.array([0.0, 1.0])), min_count=0).as_py()
        yield pa.RecordBatch.from_pydict({"graded": [graded]}, schema)

    return Step(run, schema, adds_up=True)
