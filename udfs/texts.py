"""List rows become arrays for the kernel: checked, and sorted, since inputs need not come best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.kernel.pools import Relevant
from fusion.kernel.ranking import UNSORTED, check_lists, list_order
from fusion.kernel.texts import Judged, TextBlock
from fusion.statistics.watchers import UNKNOWN
from fusion.types import Array, Floats, Int32s, Ints
from udfs.lists import JUDGEMENT, Layout, is_judgement, number_labels
from udfs.problems import ListProblems, Problem, Problems

LIST_ROW = ("text_id", "fold", "list", "label_ids", "scores")
"""The columns of a list row."""


@dataclass
class Batch:
    """Texts with what identifies them. Where a text has no judgement row it is not `judged`."""

    texts: TextBlock
    text_id: pa.Array
    fold: Int32s
    judged: Array
    decode: Callable[[Int32s], pa.Array]
    """From the label numbers inside `texts` to the label ids of the input."""
    length: Ints
    """The band of each text by its number of words; UNKNOWN where that is not given."""

    def only(self, chosen: Array) -> Batch:
        """Some of the texts."""
        kept = self.texts.some(chosen)
        about = self.fold[chosen], self.judged[chosen], self.decode, self.length[chosen]
        return Batch(kept, self.text_id.filter(pa.array(chosen)), *about)


Work = Callable[[Iterator[Batch], Problems], Iterator[pa.RecordBatch]]
"""What is done with the texts: batches in, rows out. Problems go into the rows, as text in the column `problems`."""


class Rows:
    """List rows, for reporting what is wrong with some of them."""

    def __init__(self, text_id: pa.Array, code: Array, layout: Layout, problems: Problems) -> None:
        self.text_id = text_id
        self.code = code
        self.layout = layout
        self.problems = problems

    @property
    def is_judgement(self) -> Array:
        return is_judgement(self.code)

    @property
    def groups_source(self) -> str:
        return self.layout.groups.source if self.layout.groups else ""

    def report(self, bad: Array, column: str, what: str, detail: Callable[[int], str] = lambda row: "") -> None:
        """Report rows; `detail` says more about one of them, such as which of its labels is meant."""
        where = np.flatnonzero(bad)
        for code in np.unique(self.code[where]):
            same = where[self.code[where] == code]
            source, retriever, group = self.layout.describe(int(code))
            first = [
                Problem(what, source, column, str(self.text_id[row].as_py()), retriever, group, detail(int(row)))
                for row in same[: self.problems.keep]
            ]
            kind = (source, column, what)
            self.problems.update(Problems(found={kind: first}, counts={kind: len(same)}))


def whole_texts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows sorted by text, cut so that no text straddles two tables."""
    rest: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if rest is not None:
            table = pa.concat_tables([rest, table]).combine_chunks()
        last = int(text_starts(table["text_id"])[-1]) if len(table) else 0
        rest = table.slice(last)
        if last:
            yield table.slice(0, last)
    if rest is not None and len(rest):
        yield rest


def text_starts(text_id: pa.ChunkedArray) -> Ints:
    """The rows at which another text begins."""
    ids = text_id.combine_chunks() if isinstance(text_id, pa.ChunkedArray) else text_id
    if not len(ids):
        return np.empty(0, np.int64)
    change = pc.fill_null(pc.not_equal(ids.slice(1), ids.slice(0, len(ids) - 1)), True)
    return np.concatenate(([0], np.flatnonzero(change.to_numpy(zero_copy_only=False)) + 1))


def read_texts(table: pa.Table, layout: Layout, problems: Problems) -> Batch | None:
    """List rows of whole texts as arrays. None if a row cannot be used; `problems` then says which."""
    of_table = Problems()
    batch = _read_texts(table, layout, of_table)
    problems.update(of_table)
    return batch


def _read_texts(table: pa.Table, layout: Layout, problems: Problems) -> Batch | None:
    columns = {name: table[name].combine_chunks() for name in table.column_names}
    rows = Rows(columns["text_id"], columns["list"].to_numpy(), layout, problems)
    lengths = pc.fill_null(pc.list_value_length(columns["label_ids"]), -1).to_numpy()
    score_lengths = pc.fill_null(pc.list_value_length(columns["scores"]), -1).to_numpy()
    rows.report(columns["text_id"].is_null().to_numpy(zero_copy_only=False), "text_id", "null id")
    rows.report(lengths < 0, "label_ids", "null instead of a list")
    ragged = (lengths != score_lengths) & (lengths >= 0)
    rows.report(ragged, "scores", "label_ids and scores of unequal length")
    if problems:
        return None

    offset = np.concatenate(([0], np.cumsum(lengths)))
    label_ids = columns["label_ids"].flatten()
    scores = columns["scores"].flatten()
    owner = np.repeat(np.arange(len(lengths)), lengths)
    if label_ids.null_count:
        rows.report(_mark(owner, label_ids.is_null(), len(lengths)), "label_ids", "null id")
        return None
    label, decode = number_labels(label_ids)
    score = pc.fill_null(scores, np.nan).to_numpy(zero_copy_only=False).astype(np.float64)
    return assemble(columns["fold"].to_numpy(), rows, offset, label, score, decode)


def assemble(
    fold: Int32s,
    rows: Rows,
    offset: Ints,
    label: Int32s,
    score: Floats,
    decode: Callable[[Int32s], pa.Array],
) -> Batch | None:
    """Check the lists, sort them where needed, and lay them out by text, retriever and slot."""
    layout, problems, code = rows.layout, rows.problems, rows.code
    group = layout.groups.lookup(decode(label)) if layout.groups else np.empty(0, np.int8)
    known = layout.groups.names if layout.groups else ()
    stated = np.array([known.index(slot) if slot in known else -1 for slot in layout.slots], np.int8)
    expected = np.where(rows.is_judgement, np.int8(-1), stated[code % len(layout.slots)])
    grade, score = _grades_apart(score, rows, offset)
    flags = check_lists(offset, label, score, group, expected)
    if flags.any():
        ListProblems(rows, offset, label, score, decode).report(flags, group, expected)
        if (flags & UNSORTED).any():
            order = list_order(offset, (flags & UNSORTED) > 0, label, score)
            label, score = label[order], score[order]
            group = group[order] if len(group) else group
            grade = grade[order] if len(grade) else grade
            flags = check_lists(offset, label, score, group, expected)
        ListProblems(rows, offset, label, score, decode).report_repeated(flags)
        if problems:
            return None

    # One query is a text in a fold; `place` holds its row for each list code, -1 where there is none.
    starts = text_starts(rows.text_id)
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(code))))
    key = number.astype(np.int64) << 32 | fold.astype(np.int64)
    queries, first, query = np.unique(key, return_index=True, return_inverse=True)
    lists = len(layout.retrievers) * len(layout.slots)
    slot = np.where(rows.is_judgement, lists, code)
    place = np.full((len(queries), lists + 1), -1, np.int64)
    place[query, slot] = np.arange(len(code))
    overwritten = place[query, slot] != np.arange(len(code))
    rows.report(overwritten, "text_id", "two rows for one text, retriever and label group (of one fold)")
    if problems:
        return None

    begin, end = np.append(offset[:-1], 0), np.append(offset[1:], 0)
    shape = (len(queries), len(layout.retrievers), len(layout.slots))
    judged = Judged(Relevant(begin[place[:, -1]], end[place[:, -1]], label), group, grade)
    relevant, relevant_group = _relevant(judged, layout.relevant_from)
    texts = TextBlock(
        layout.slots,
        begin[place[:, :-1]].reshape(shape),
        end[place[:, :-1]].reshape(shape),
        label,
        score,
        group,
        relevant,
        relevant_group,
        judged=None if layout.relevant_from is None else judged,
        fold=fold[first],
    )
    about = fold[first], place[:, -1] >= 0, decode, _lengths(code, place[:, -1])
    return Batch(texts, rows.text_id.take(pa.array(first)), *about)


def _lengths(code: Array, judgement: Ints) -> Ints:
    """The band of each text by its number of words, told by the code of its judgement, if it has one."""
    return np.where(judgement >= 0, JUDGEMENT - 1 - code[judgement].astype(np.int64), UNKNOWN)


def _grades_apart(score: Floats, rows: Rows, offset: Ints) -> tuple[Floats, Floats]:
    """The grades, where judgements have some as scores, and the scores with zeros instead: judged labels are then
    sorted by id. Grades that are no numbers stay, so that they are reported."""
    if rows.layout.relevant_from is None:
        return np.empty(0), score
    of_judgement = np.repeat(rows.is_judgement, np.diff(offset))
    return score, np.where(of_judgement & np.isfinite(score), 0.0, score)


def _relevant(judged: Judged, relevant_from: float | None) -> tuple[Relevant, Array]:
    """The judged labels whose grade makes them relevant, and their groups; all of them, where there are no grades."""
    if relevant_from is None:
        return judged.labels, judged.group
    (start, stop, label), group, grade = judged
    size = stop - start
    entry = np.repeat(stop - np.cumsum(size), size) + np.arange(size.sum())
    chosen = grade[entry] >= relevant_from
    ends = np.append(0, np.cumsum(chosen))[np.cumsum(size)]
    starts = np.append(0, ends[:-1])
    kept = entry[chosen]
    return Relevant(starts, ends, label[kept]), group[kept] if len(group) else group


def list_rows(batch: Batch, layout: Layout, texts: Ints) -> pa.Table:
    """The list rows of some judged texts of a batch: `read_texts` makes the same texts of them again."""
    some, text_id = batch.texts.some(texts).by_group(layout.group_names), batch.text_id.take(pa.array(texts))

    def rows(code: Ints, start: Ints, stop: Ints, label: Int32s, score: Floats | None) -> pa.Table:
        """Of lists [text, list] with these list codes. Without scores, these are 0."""
        size = (stop - start).ravel()
        entry = np.repeat(stop.ravel() - np.cumsum(size), size) + np.arange(size.sum())
        offset = pa.array(np.append(0, np.cumsum(size)), pa.int32())
        text = np.repeat(np.arange(len(texts)), start.shape[1])
        columns = (
            text_id.take(pa.array(text)),
            pa.array(batch.fold[texts[text]], pa.int32()),
            pa.array(code.ravel(), pa.int32()),
            pa.ListArray.from_arrays(offset, batch.decode(label[entry])),
            pa.ListArray.from_arrays(offset, pa.array(np.zeros(len(entry)) if score is None else score[entry])),
        )
        return pa.table(dict(zip(LIST_ROW, columns, strict=True)))

    # Where a batch also has lists of all labels, these repeat those of the groups.
    slots = [some.slots.index(slot) for slot in layout.slots]
    lists = len(layout.retrievers) * len(slots)
    start, stop = (ends[:, :, slots].reshape(len(texts), lists) for ends in (some.start, some.stop))
    codes = np.tile(np.arange(lists), (len(texts), 1))
    labels, grade = (some.relevant, None) if some.judged is None else (some.judged.labels, some.judged.grade)
    of_runs = rows(codes, start, stop, some.label, some.score)
    code = JUDGEMENT - 1 - batch.length[texts]
    of_judgements = rows(code[:, None], labels.start[:, None], labels.stop[:, None], labels.label, grade)
    return pa.concat_tables([of_runs, of_judgements])


def report_repeated(batch: Batch, repeated: Ints, layout: Layout, problems: Problems) -> None:
    """The lists that hold a label twice, among the texts in which the kernel saw one."""
    for q in repeated:
        for r in range(len(layout.retrievers)):
            for s, slot in enumerate(batch.texts.slots):
                labels = batch.texts.label[batch.texts.start[q, r, s] : batch.texts.stop[q, r, s]]
                values, counts = np.unique(labels, return_counts=True)
                if (counts > 1).any():
                    twice = batch.decode(values[counts > 1][:1]).to_pylist()[0]
                    source, retriever, _ = layout.describe(r * len(layout.slots))
                    text = str(batch.text_id[int(q)].as_py())
                    what = "the same label twice in a list"
                    problems.add(Problem(what, source, "label_ids", text, retriever, slot, f"label {twice}"))
                    break


def _mark(owner: Ints, bad: pa.Array, size: int) -> Array:
    marked = np.zeros(size, np.bool_)
    marked[owner[bad.to_numpy(zero_copy_only=False)]] = True
    return marked
