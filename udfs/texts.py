"""List rows become arrays for the kernel: checked, and sorted, since inputs need not come best first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.kernel import ranking
from fusion.kernel.pools import Relevant
from fusion.kernel.ranking import REPEATED, UNSORTED
from fusion.kernel.texts import Judged, TextBlock
from fusion.labels import ALL
from fusion.statistics.watchers import UNKNOWN
from fusion.types import Array, Floats, Int32s, Ints
from udfs.list_arrays import LIST_ROW, ListArrays, Marks, Rows, list_arrays
from udfs.lists import IN_FOLD, JUDGEMENT, NO_FOLD, Layout
from udfs.problems import REPEATED_LABEL, ListProblems, Problem, Problems
from udfs.steps import Batches, Step, key_starts, whole_keys


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


def read_texts(table: pa.Table, layout: Layout, problems: Problems) -> Batch | None:
    """List rows of whole texts as arrays. None if a row cannot be used; `problems` then says which."""
    columns = {name: table[name].combine_chunks() for name in LIST_ROW}
    text_id, code = columns["text_id"], columns["list"].to_numpy()
    fold = pc.fill_null(columns["fold"], NO_FOLD).to_numpy()
    rows = Rows(text_id, code, layout, problems)
    rows.report(text_id.is_null().to_numpy(zero_copy_only=False), "text_id", "null id")
    if rows.bad or not len(code):
        return None
    starts = key_starts(table, ["text_id"])
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(code))))
    marks, counted = Marks.apart(number, fold, code, layout)
    if not counted.any():
        return None
    if not counted.all():
        columns = {name: values.filter(pa.array(counted)) for name, values in columns.items()}
        code, fold, number = code[counted], fold[counted], number[counted]
        rows = Rows(columns["text_id"], code, layout, problems)
    lists = list_arrays(columns, number, fold, code, rows)
    ids = text_id.take(pa.array(starts))
    return None if lists is None else assemble(lists, marks, ids, layout, problems)


def texts_step(work: Work, layout: Layout, schema: pa.Schema, adds_up: bool = True) -> Step:
    """The step that does some work with list rows in the order of their texts."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        problems = Problems()
        texts = (read_texts(table, layout, problems) for table in whole_keys(batches, ["text_id"]))
        yield from work((batch for batch in texts if batch is not None), problems)

    return Step(run, schema, adds_up=adds_up)


def assemble(lists: ListArrays, marks: Marks, text_id: pa.Array, layout: Layout, problems: Problems) -> Batch | None:
    """Check the lists, sort them where needed, and lay them out by text, retriever and slot. `text_id`: by number."""
    rows = Rows(text_id.take(pa.array(lists.number)), lists.code, layout, problems)
    sorted_lists = _sorted(lists, rows)
    if sorted_lists is None:
        return None
    lists, group, grade = sorted_lists
    if layout.form.lowest is not None:
        lists, group, grade = _without_low_grades(lists, group, grade, layout.form.lowest)
    if layout.relevant_from is None:
        grade = np.empty(0)
    if layout.slots != (ALL,):
        lists, group, grade = _divided(lists, group, grade, layout)

    # One query is a text in a fold; `place` holds its row for each list code, -1 where there is none.
    row, fold = marks.placed(lists.number, lists.fold)
    code = lists.code[row]
    key = lists.number[row].astype(np.int64) << 32 | fold.astype(np.int64)
    queries, first, query = np.unique(key, return_index=True, return_inverse=True)
    slot = np.where(code <= JUDGEMENT, layout.whole, code)
    place = np.full((len(queries), layout.whole + 1), -1, np.int64)
    place[query, slot] = row
    overwritten = place[query, slot] != row
    rows = Rows(text_id.take(pa.array(lists.number[row])), code, layout, problems)
    rows.report(overwritten, "text_id", "two rows for one text, retriever and label group (of one fold)")
    repeated = len(marks.text) > 0 and _report_repeated_folds(marks, text_id, layout, problems)
    if rows.bad or repeated:
        return None

    begin, end = np.append(lists.offset[:-1], 0), np.append(lists.offset[1:], 0)
    shape = (len(queries), len(layout.retrievers), len(layout.slots))
    judged = Judged(Relevant(begin[place[:, -1]], end[place[:, -1]], lists.label), group, grade)
    relevant, relevant_group = judged.labels, judged.group
    if layout.relevant_from is not None:
        relevant, relevant_group = _relevant(judged, layout.relevant_from)
    texts = TextBlock(
        slots=layout.slots,
        start=begin[place[:, :-1]].reshape(shape),
        stop=end[place[:, :-1]].reshape(shape),
        label=lists.label,
        score=lists.score,
        group=group if lists.slot is None else lists.slot,
        relevant=relevant,
        relevant_group=relevant_group,
        normalized=lists.normalized,
        judged=None if layout.relevant_from is None else judged,
        fold=fold[first],
    )
    judgement = place[:, -1]
    # Their codes say how many words the texts have.
    length = np.where(judgement >= 0, JUDGEMENT - 1 - lists.code[judgement].astype(np.int64), UNKNOWN)
    ids = text_id.take(pa.array(lists.number[row[first]]))
    return Batch(texts, ids, fold[first], judgement >= 0, lists.decode, length)


def _sorted(lists: ListArrays, rows: Rows) -> tuple[ListArrays, Array, Floats] | None:
    """The lists best first, with the group of every entry and the grades of judgements; None if a list cannot be
    used."""
    layout, offset = rows.layout, lists.offset
    group = layout.groups.lookup(lists.decode(lists.label)) if layout.groups else np.empty(0, np.int8)
    names = layout.groups.names if layout.groups else ()
    stated = np.array([names.index(slot) if slot in names else -1 for slot in layout.slots], np.int8)
    divided = (lists.code >= 0) & (lists.code < layout.whole)
    expected = np.where(divided, stated[lists.code % len(layout.slots)], np.int8(-1))
    grade, score = np.empty(0), lists.score
    if layout.relevant_from is not None or layout.form.lowest is not None:
        # Judged labels are sorted by id, not by grade. Grades that are no numbers stay, so that they are reported.
        of_judgement = np.repeat(rows.is_judgement, np.diff(offset))
        grade, score = score, np.where(of_judgement & np.isfinite(score), 0.0, score)
        lists = replace(lists, score=score)
    flags = ranking.check_lists(offset, lists.label, score, group, expected)
    if not flags.any():
        return lists, group, grade
    if ((flags != 0) & (flags != UNSORTED)).any():
        ListProblems(rows, offset, lists.label, score, lists.decode).report(flags, group, expected)
    if (flags & UNSORTED).any():
        order = ranking.list_order(offset, (flags & UNSORTED) > 0, lists.label, score)
        lists = lists.entries(order, offset)
        group = group[order] if len(group) else group
        grade = grade[order] if len(grade) else grade
        flags = ranking.check_lists(offset, lists.label, lists.score, group, expected)
    if (flags & REPEATED).any():
        ListProblems(rows, offset, lists.label, lists.score, lists.decode).report_repeated(flags)
    return None if rows.bad else (lists, group, grade)


def is_low(grade: Floats, lowest: float) -> Array:
    """Which grades are too low to be read. Those that are no numbers are read, to be reported."""
    return np.isfinite(grade) & (grade < lowest)


def _without_low_grades(
    lists: ListArrays, group: Array, grade: Floats, lowest: float
) -> tuple[ListArrays, Array, Floats]:
    """Without judged labels of lower grades."""
    mask = ~(np.repeat(lists.code <= JUDGEMENT, np.diff(lists.offset)) & is_low(grade, lowest))
    if mask.all():
        return lists, group, grade
    lists = lists.entries(mask, np.append(0, np.cumsum(mask))[lists.offset])
    return lists, group[mask] if len(group) else group, grade[mask]


def _divided(lists: ListArrays, group: Array, grade: Floats, layout: Layout) -> tuple[ListArrays, Array, Floats]:
    """Lists of all labels as one list per label group."""
    whole = lists.code >= layout.whole
    if not whole.any():
        return lists, group, grade
    groups = len(layout.slots)
    offset, order = ranking.divide_lists(lists.offset, whole, group, groups)
    row = np.repeat(np.arange(len(whole)), np.where(whole, groups, 1))
    within = np.arange(len(row)) - np.flatnonzero(np.append(True, row[1:] != row[:-1]))[row]
    code = np.where(whole[row], (lists.code[row] - layout.whole) * groups + within, lists.code[row])
    lists = replace(lists.entries(order, offset), number=lists.number[row], fold=lists.fold[row], code=code)
    return lists, group[order], grade[order] if len(grade) else grade


def _report_repeated_folds(marks: Marks, text_id: pa.Array, layout: Layout, problems: Problems) -> bool:
    """Report texts that a fold has more than once; whether there are any."""
    inside = marks.kind == IN_FOLD
    pairs, times = np.unique(np.stack([marks.text[inside], marks.fold[inside]]), axis=1, return_counts=True)
    for text, fold in pairs[:, times > 1].T.tolist():
        what = f"a {layout.form.role} text of a fold more than once"
        problems.add(Problem(what, layout.form.folds, "text_id", str(text_id[text].as_py()), detail=f"fold {fold}"))
    return bool((times > 1).any())


def _relevant(judged: Judged, relevant_from: float) -> tuple[Relevant, Array]:
    """The judged labels whose grade makes them relevant, and their groups."""
    (start, stop, label), group, grade = judged
    size = stop - start
    entry = np.repeat(stop - np.cumsum(size), size) + np.arange(size.sum())
    is_relevant = grade[entry] >= relevant_from
    ends = np.append(0, np.cumsum(is_relevant))[np.cumsum(size)]
    starts = np.append(0, ends[:-1])
    entries = entry[is_relevant]
    return Relevant(starts, ends, label[entries]), group[entries] if len(group) else group


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
    return pa.concat_tables([of_runs, of_judgements.filter(pa.array(batch.judged[texts]))])


def rows_schema(text: pa.DataType, label: pa.DataType) -> pa.Schema:
    """The columns of list rows as `list_rows` makes them."""
    lists = [("label_ids", pa.list_(label)), ("scores", pa.list_(pa.float64()))]
    return pa.schema([("text_id", text), ("fold", pa.int32()), ("list", pa.int32()), *lists])


def first_ids(text: pa.DataType, most: int) -> Step:
    """The first ids among sorted rows, each once."""
    schema = pa.schema([("text_id", text)])

    def run(batches: Batches) -> Batches:
        first_ids = pa.array([], text)
        for batch in batches:
            if len(first_ids) < most:
                first_ids = pa.concat_arrays([first_ids, batch["text_id"].cast(text).drop_null()]).unique()[:most]
        yield pa.RecordBatch.from_arrays([first_ids], schema=schema)

    return Step(run, schema, adds_up=True)


def read_rows(rows: pa.Table, layout: Layout) -> pa.Table:
    """List rows as they come from the inputs, checked and placed in folds: for `Layout.of_read`."""
    problems = Problems()
    ordered = rows.take(pc.sort_indices(rows, [("text_id", "ascending")])).combine_chunks()
    batch = read_texts(ordered, layout, problems)
    if problems:
        raise problems.error()
    return ordered.slice(0, 0) if batch is None else list_rows(batch, layout, np.arange(len(batch.texts)))


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
                    what = REPEATED_LABEL
                    problems.add(
                        Problem(
                            what=what,
                            source=source,
                            column="label_ids",
                            text_id=text,
                            retriever=retriever,
                            label_group=slot,
                            detail=f"label {twice}",
                        )
                    )
                    break
