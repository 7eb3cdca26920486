"""What metrics need of a batch besides the ranks of relevant labels: grades, propensities, and how ties are ordered."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain, pairwise, repeat
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.grid.grid import Grid
from fusion.grid.hits import Hits, TieOrder, count_listed
from fusion.kernel.texts import Scope
from fusion.labels import ALL
from fusion.metrics import Metric
from fusion.registry import METRICS, Gain
from fusion.statistics.paired import TEXTS_AT_A_TIME
from fusion.statistics.tally import Tally
from fusion.statistics.text_figures import TextFigures, ViewTexts
from fusion.types import Array, Floats, Int32s, Ints
from fusion.worth import Gains, Rules, sorted_gains
from udfs.lists import Layout
from udfs.plan import Propensities
from udfs.problems import Problem, Problems
from udfs.steps import Batches, Step, key_starts, whole_keys
from udfs.texts import Batch, is_low

LARGEST_GAIN = 1e300
"""Any number of gains up to this one has a sum."""


class Evaluated(Protocol):
    """What is asked of an evaluation here."""

    @property
    def layout(self) -> Layout: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def grid(self) -> Grid: ...

    @property
    def scope(self) -> Scope: ...

    @property
    def propensities(self) -> Propensities | None: ...

    @property
    def further_metrics(self) -> Sequence[Metric]: ...


class ViewFigures:
    """The figures of a batch in one view that do not follow from hits by rank. Those that are asked for are also added
    up, so every text must be asked for once."""

    def __init__(self, figures: TextFigures, group: Ints, groups: int) -> None:
        """`group`: the sum that each text is added to."""
        self.figures = figures
        self.hit: Array = np.diff(figures.texts.first) > 0
        self._group = group
        columns = figures.texts.hits.ranks.shape[1]
        self.sums: Ints = np.zeros((groups, len(figures.parts), columns), np.int64)

    def of(self, texts: Ints) -> Floats:
        """The figures [aspect, text, column] of some texts."""
        return self.figures.of(texts, self._group, self.sums)

    def add_all(self, counted: Array) -> None:
        """Add the figures of all texts that count, unless they are asked for elsewhere."""
        texts = np.flatnonzero(counted & self.hit)
        for begin in range(0, len(texts), TEXTS_AT_A_TIME):
            chosen = texts[begin : begin + TEXTS_AT_A_TIME]
            self.figures.of(chosen, self._group, self.sums, keep=False)


def report_large_gains(batch: Batch, evaluation: Evaluated, problems: Problems) -> None:
    """Report grades whose gain is so large that sums of gains overflow, which would make the figure of the text 0."""
    if batch.texts.judged is None:
        return
    labels, _, grade = batch.texts.judged
    entry = _entries(labels.start, labels.stop)
    with np.errstate(over="ignore"):
        large = np.flatnonzero(evaluation.rules.gain_of(grade[entry]) > LARGEST_GAIN)
    if not len(large):
        return
    text = np.repeat(np.arange(len(labels.start)), labels.stop - labels.start)
    shown = large[: problems.keep]
    what = f"grade whose gain overflows (evaluate.gain: {evaluation.rules.gain})"
    kind = (evaluation.layout.judgements, "grades", what)
    first = [
        Problem(what, *kind[:2], str(batch.text_id[int(text[n])].as_py()), detail=f"label {name}")
        for n, name in zip(shown, batch.decode(labels.label[entry[shown]]).to_pylist(), strict=True)
    ]
    problems.update(Problems(found={kind: first}, counts={kind: len(large)}))


class FurtherSums:
    """The figures of a batch that do not follow from hits by rank, on their way to the tallies of the folds."""

    def __init__(self, batch: Batch, evaluation: Evaluated, tallies: Sequence[Tally]) -> None:
        """`tallies`: of the folds that the batch has, in their order."""
        self._batch, self._evaluation, self._tallies = batch, evaluation, tallies
        self._fold = np.unique(batch.fold, return_inverse=True)[1]
        self._gains = BatchGains(batch, evaluation)

    def figures(self, view: int, hits: Hits, relevant: Sequence[Ints]) -> ViewFigures:
        """Of the texts in a view, with its hits and the numbers of relevant labels: all, and those of the view."""
        texts = view_texts(self._batch, self._evaluation, hits, relevant, self._gains)
        figures = TextFigures(hits.view, self._evaluation.further_metrics, texts)
        self._of_view = ViewFigures(figures, self._fold, len(self._tallies))
        return self._of_view

    def add_to_tallies(self, view: int, counted: Array) -> None:
        """Add what was asked for since `figures`."""
        figures = self._of_view.figures
        ideals = [ideal for _, ideal in figures.parts]
        for fold, tally in enumerate(self._tallies):
            metrics = [tally.metrics.index(metric) for metric, _ in figures.parts]
            tally.sums[view, ideals, metrics] += self._of_view.sums[fold]
            counted_here = np.flatnonzero(counted & (self._fold == fold))
            tally.ideal_sums[view, ideals, metrics] += figures.ideal_sums(counted_here)


def tie_order(batch: Batch, rules: Rules) -> TieOrder:
    """How the rules order equal scores, where that is not by ascending label id."""
    if rules.ties != "descending":
        return TieOrder(rules.ties)
    labels = np.unique(batch.texts.label)
    # trec_eval compares ids byte by byte, and so does Arrow.
    order = pc.sort_indices(batch.decode(labels).cast(pa.string())).to_numpy()
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)

    def key(wanted: Int32s) -> Int32s:
        return number[np.searchsorted(labels, wanted)]

    return TieOrder(rules.ties, key)


def view_texts(
    batch: Batch, evaluation: Evaluated, hits: Hits, relevant: Sequence[Ints], of_batch: BatchGains
) -> ViewTexts:
    """The texts of a batch in one view as metrics see them. `hits` are those of the view."""
    entries = [METRICS[metric.name] for metric in evaluation.further_metrics]
    kinds = {entry.gain for entry in entries}
    group = None if hits.view == ALL else evaluation.layout.group_names.index(hits.view)
    gains: dict[Gain, Sequence[Gains]] = {}
    hit_gains: dict[Gain, Floats] = {}
    nonrelevant, numbers = None, None
    if hits.grade is not None:
        hits, others, others_number = _graded(batch, evaluation.rules, hits, group)
        if any(entry.nonrelevant for entry in entries):
            nonrelevant, numbers = others, others_number
        assert hits.grade is not None
        hit_gains["one"] = (hits.grade >= evaluation.rules.threshold).astype(np.float64)
        hit_gains["grade"] = evaluation.rules.gain_of(hits.grade)
        gains["grade"] = of_batch.grades(group)
    if "propensity" in kinds:
        assert evaluation.propensities is not None
        of_hits = evaluation.propensities.of(batch.fold[hits.text], batch.decode(hits.label))
        hit_gains["propensity"] = of_hits * hit_gains.get("one", np.ones(len(of_hits)))
        gains["propensity"] = of_batch.propensities(group)
    groups = evaluation.layout.group_names
    listed = partial(count_listed, batch.texts, evaluation.grid, hits.view, groups, evaluation.scope)
    return ViewTexts(
        hits=hits,
        relevant=relevant,
        gains=gains,
        hit_gains=hit_gains,
        nonrelevant=nonrelevant,
        nonrelevant_numbers=numbers,
        count_listed=listed,
    )


def _graded(batch: Batch, rules: Rules, hits: Hits, group: int | None) -> tuple[Hits, Hits, Ints]:
    """The hits that count under some metric, those that are judged and not relevant, and the number of all labels of
    each text that are. As in trec_eval, labels of a negative grade are not judged."""
    assert hits.grade is not None and batch.texts.judged is not None
    labels, groups, grade = batch.texts.judged
    unwanted = (grade >= 0) & (grade < rules.threshold)
    if group is not None:
        unwanted &= groups == group
    before = np.append(0, np.cumsum(unwanted))
    counting = hits.where((hits.grade >= rules.threshold) | (hits.grade > 0))
    nonrelevant = hits.where((hits.grade >= 0) & (hits.grade < rules.threshold))
    return counting, nonrelevant, before[labels.stop] - before[labels.start]


class BatchGains:
    """What the judged labels of a batch count, greatest first, which is the best possible ranking of each text."""

    def __init__(self, batch: Batch, evaluation: Evaluated) -> None:
        self._batch, self._evaluation = batch, evaluation

    def grades(self, group: int | None) -> Sequence[Gains]:
        """By grade: of all labels of each text, and of those of a group."""
        return _of_group(*self._grades, group)

    def propensities(self, group: int | None) -> Sequence[Gains]:
        """By propensity, likewise."""
        return _of_group(*self._propensities, group)

    @cached_property
    def _grades(self) -> tuple[Gains, Array]:
        assert self._batch.texts.judged is not None
        labels, groups, grade = self._batch.texts.judged
        return _sorted(labels.start, labels.stop, self._evaluation.rules.gain_of(grade), groups)

    @cached_property
    def _propensities(self) -> tuple[Gains, Array]:
        assert self._evaluation.propensities is not None
        labels = self._batch.texts.relevant
        entry, size = _entries(labels.start, labels.stop), labels.stop - labels.start
        inverse = self._evaluation.propensities.of(
            np.repeat(self._batch.fold, size), self._batch.decode(labels.label[entry])
        )
        groups, ends = self._batch.texts.relevant_group, np.cumsum(size)
        return _sorted(ends - size, ends, inverse, groups[entry] if len(groups) else groups)


def _entries(start: Ints, stop: Ints) -> Ints:
    """The numbers from start[t] to stop[t], text after text."""
    size = stop - start
    return np.repeat(stop - np.cumsum(size), size) + np.arange(size.sum())


def _sorted(start: Ints, stop: Ints, gain: Floats, groups: Array) -> tuple[Gains, Array]:
    """The gains of each text, greatest first, and their labels' groups: entries start[t] to stop[t] are text t's."""
    entry = _entries(start, stop)
    first = np.append(0, np.cumsum(stop - start))
    gains, order = sorted_gains(first, gain[entry])
    return gains, groups[entry][order] if len(groups) else groups


def _of_group(gains: Gains, groups: Array, group: int | None) -> Sequence[Gains]:
    """The gains of all labels, and those of the labels of one group."""
    if group is None:
        return gains, gains
    inside = groups == group
    before = np.append(0, np.cumsum(inside))
    return gains, Gains(before[gains.first], gains.value[inside])


JUDGED_SCHEMA = pa.schema([("text_id", pa.string()), ("judgement", pa.int64()), ("labels", pa.int64())])


def judgement_digests(lowest: float | None) -> Step:
    """From judgements as list rows, sorted by text, to a digest of how each text was judged, whatever the order of its
    labels; and the number of its labels of this grade or a higher one."""

    def run(batches: Batches) -> Batches:
        for table in whole_keys(batches, ["text_id"]):
            starts = [*key_starts(table, ["text_id"]).tolist(), len(table)]
            labels = table["label_ids"].cast(pa.list_(pa.string())).to_pylist()
            grades = table["scores"].to_pylist()
            digests, numbers = [], []
            for first, last in pairwise(starts):
                of_text = list(chain.from_iterable(row or [] for row in labels[first:last]))
                graded = None if grades[first] is None else list(chain.from_iterable(grades[first:last]))
                digests.append(_digest(of_text, graded))
                low = 0 if lowest is None or graded is None else int(is_low(np.array(graded, np.float64), lowest).sum())
                numbers.append(len(of_text) - low)
            ids = table["text_id"].take(pa.array(starts[:-1])).cast(pa.string())
            yield pa.record_batch([ids.combine_chunks(), pa.array(digests, pa.int64()), numbers], schema=JUDGED_SCHEMA)

    return Step(run, JUDGED_SCHEMA, in_python=True)


RUN_COUNTS_SCHEMA = pa.schema([("texts", pa.int64()), ("rows", pa.int64()), ("without", pa.int64())])


def run_counts() -> Step:
    """From rows of a run, sorted by text, to the numbers of its texts, of its rows, and of those without a label or
    score."""

    def run(batches: Batches) -> Batches:
        texts = rows = without = 0
        for table in whole_keys(batches, ["text_id"]):
            texts, rows = texts + len(table["text_id"].unique()), rows + len(table)
            empty = np.zeros(len(table), np.bool_)
            for name in ("label_ids", "scores"):
                lists = table[name].combine_chunks()
                empty |= pc.fill_null(pc.equal(pc.list_value_length(lists), 0), True).to_numpy(zero_copy_only=False)
                holes = pc.list_parent_indices(lists).filter(lists.flatten().is_null())
                empty[holes.to_numpy()] = True
            without += int(empty.sum())
        yield pa.RecordBatch.from_pydict({"texts": [texts], "rows": [rows], "without": [without]}, RUN_COUNTS_SCHEMA)

    return Step(run, RUN_COUNTS_SCHEMA, adds_up=True)


def _digest(labels: list[str | None], grades: list[float] | None) -> int:
    pairs = zip(labels, grades or repeat(None), strict=False)
    lines = sorted(label if grade is None else f"{label}\t{grade}" for label, grade in pairs if label is not None)
    return int.from_bytes(hashlib.blake2b("\n".join(lines).encode(), digest_size=8).digest(), "big", signed=True)
