"""Judgements with grades: what is read of them, and what is refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.errors import InputError
from jobs.inputs.sources import SHOWN_LINES

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
