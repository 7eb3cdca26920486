"""Evaluation inside the workers: list rows in, packed counts out."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import pyarrow as pa

from fusion.grid.grid import Grid
from fusion.grid.hits import Hits, find_hits
from fusion.labels import ALL
from fusion.metrics import Aspect
from fusion.statistics.coverage import Coverage, common_candidates
from fusion.statistics.label_counts import ENTRIES, BestLabels
from fusion.statistics.paired import PairedSums, Watch
from fusion.statistics.signs import blocks_of, text_fingerprints
from fusion.statistics.tally import Tally
from fusion.types import Array, Ints
from udfs.examples import merged, to_bytes
from udfs.judged import FurtherSums, ViewFigures, report_large_gains, tie_order
from udfs.plan import LABELS, Details, EvaluationPlan, LabelCounter, sums_over_labels
from udfs.problems import Problems
from udfs.steps import Step, key_starts, whole_keys
from udfs.texts import Batch, Work, report_repeated

SMALL = np.iinfo(np.int32)


def numbers_to_bytes(numbers: Ints) -> bytes:
    """Eight bytes per number; four where all are small, and then one more, so that the number of bytes is odd."""
    if len(numbers) and (numbers.min() < SMALL.min or numbers.max() > SMALL.max):
        return numbers.tobytes()
    return numbers.astype(np.int32).tobytes() + b"\0" if len(numbers) else b""


def numbers_from_bytes(content: bytes) -> Ints:
    """The numbers that `numbers_to_bytes` was given."""
    if len(content) % 2:
        return np.frombuffer(content, np.int32, len(content) // 4).astype(np.int64)
    return np.frombuffer(content, np.int64)


COUNTS_SCHEMA = pa.schema(
    [
        ("fold", pa.int32()),
        ("part", pa.string()),
        ("places", pa.binary()),
        ("counts", pa.binary()),
        ("problems", pa.string()),
    ]
)
"""A vector of counts: of a fold (part `hits`), or of all folds (fold NO_FOLD; part `coverage`, or the name of what is
compared). `places` says which are given; empty: all, in order (as in udfs/counter.py). Part `examples` holds
no counts but texts with their lists (see udfs/examples.py); its `places` says how many are kept."""
COUNTS = ("fold", "part")
"""What identifies a vector of counts."""
NO_FOLD = -1
HITS, COVERAGE, EXAMPLES = "hits", "coverage", "examples"
LENGTHS = "lengths "
"""A part by the length of texts; the view follows."""


def count_hits(evaluation: EvaluationPlan) -> Work:
    """The work of an engine: one row of packed counts per fold and part."""

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        counter = Counter(evaluation, problems)
        for batch in batches:
            counter.add(batch)
            if counter.labels is not None and counter.labels.entries >= ENTRIES and not problems:
                yield from _label_rows(counter.labels)
        yield from counter.packed()

    return run


def added_counts() -> Step:
    """Packed counts, sorted by fold and part, added up."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in whole_keys(batches, COUNTS):
            edges = [*key_starts(table, COUNTS).tolist(), len(table)]
            for first, last in pairwise(edges):
                yield from add_counts(table.slice(first, last - first)).to_batches()

    return Step(run, COUNTS_SCHEMA)


def add_counts(table: pa.Table) -> pa.Table:
    """The packed counts of one fold and part added up."""
    problems = Problems.from_json(text for text in table["problems"].to_pylist() if text)
    fold, part = table["fold"][0].as_py(), table["part"][0].as_py()
    if part == EXAMPLES:
        keep = table["places"][0].as_py()
        kept = merged(table["counts"].to_pylist(), int(np.frombuffer(keep, np.int64)[0]))
        return pa.Table.from_batches([_packed_row(fold, part, keep, to_bytes(kept), problems)])
    total = np.zeros(0, np.int64)
    for places, counts in unpacked(table):
        longer = max(len(total), int(places.max(initial=-1)) + 1)
        total = np.concatenate([total, np.zeros(longer - len(total), np.int64)])
        # A row has every place once.
        total[places] += counts
    if part.startswith(LABELS):
        return pa.Table.from_batches([_packed_row(fold, part, b"", sums_over_labels(part, total), problems)])
    return pa.Table.from_batches([_row(fold, part, total, problems)])


def unpacked(table: pa.Table) -> Iterator[tuple[Ints, Ints]]:
    """The counts of every row: where, and how many."""
    for where, how_many in zip(table["places"].to_pylist(), table["counts"].to_pylist(), strict=True):
        counts = numbers_from_bytes(how_many)
        yield numbers_from_bytes(where) if where else np.arange(len(counts)), counts


class Counter:
    """Adds up the hits of many batches, fold by fold."""

    def __init__(self, evaluation: EvaluationPlan, problems: Problems) -> None:
        self.evaluation = evaluation
        self.grid = evaluation.grid
        self.problems = problems
        self.tallies: dict[int, Tally] = defaultdict(evaluation.new_tally)
        self.examples = None if evaluation.details is None else evaluation.new_examples()
        self.lengths = {} if evaluation.details is None else evaluation.new_lengths()
        self.labels = None if evaluation.labels is None else LabelCounter(evaluation.labels, evaluation.layout)

    def add(self, batch: Batch) -> None:
        """Count the texts of a batch and, in every view, their hits, labels, figures and details."""
        evaluation = self.evaluation
        self._count_input(batch)
        best = None if evaluation.labels is None else evaluation.best_labels(evaluation.labels)
        further_sums = None
        if evaluation.further_metrics:
            report_large_gains(batch, evaluation, self.problems)
            further_sums = FurtherSums(batch, evaluation, [self.tallies[int(fold)] for fold in np.unique(batch.fold)])
        hits = judged_hits(batch, evaluation, self.grid, self.problems, best)
        if self.problems:
            return
        groups = evaluation.layout.group_names
        relevant_all = batch.texts.relevant_counts(groups, ALL)
        lists = None if evaluation.details is None else _ListFacts.of(batch, evaluation.details, groups)
        if self.examples is not None:
            self.examples.begin(batch)
        for v, view in enumerate(evaluation.views):
            relevant = batch.texts.relevant_counts(groups, view)
            counted = batch.judged if view == ALL else batch.judged & (relevant > 0)
            numbers = [relevant_all, relevant]
            relevant_hits = hits[v].relevant(evaluation.rules.threshold)
            self._add_hits(v, batch, relevant_hits, counted, numbers)
            if best is not None and self.labels is not None:
                self.labels.add(batch, view, best, counted)
            further = None if further_sums is None else further_sums.figures(v, hits[v], numbers)
            if lists is not None:
                self._add_details(lists, v, batch, relevant_hits, counted, numbers, further)
            elif further is not None:
                further.add_all(counted)
            if further_sums is not None:
                further_sums.add_to_tallies(v, counted)
        if self.examples is not None:
            self.examples.end()

    def _add_hits(self, view: int, batch: Batch, hits: Hits, counted: Array, relevant: list[Ints]) -> None:
        """Hits of relevant labels by rank, and the texts that count, each in its fold."""
        for fold in np.unique(batch.fold):
            tally = self.tallies[int(fold)]
            here = counted & (batch.fold == fold)
            tally.add_queries(view, *(numbers[here] for numbers in relevant))
            mine = here[hits.text]
            text = hits.text[mine]
            tally.add_hits(view, hits.ranks[mine], *(numbers[text] for numbers in relevant))

    def _add_details(
        self,
        lists: _ListFacts,
        view: int,
        batch: Batch,
        hits: Hits,
        counted: Array,
        relevant: list[Ints],
        further: ViewFigures | None,
    ) -> None:
        """Hits are relevant labels, so their texts all count in the view."""
        assert self.evaluation.details is not None
        counted_labels = self.evaluation.details.labels
        self.coverage.add(view, lists.slots, lists.common, counted, hits, relevant)
        # What is counted from here on has no use for lower ranks.
        hits = hits.within(self.evaluation.depth)
        labels = batch.texts.relevant_labels(self.evaluation.layout.group_names, hits.view, counted)
        of_pairs, of_hits = batch.decode(labels), batch.decode(hits.label)
        text = np.repeat(np.flatnonzero(counted), relevant[1][counted])
        bands = [
            counted_labels.bands_of(hits.view, of_pairs, batch.fold[text]),
            counted_labels.bands_of(hits.view, of_hits, batch.fold[hits.text]),
        ]
        self.coverage.add_bands(view, bands[0], hits, bands[1])
        watched = counted_labels.watched[hits.view]
        self.coverage.add_labels(view, watched.lookup(of_pairs), hits, watched.lookup(of_hits))
        watches = [] if self.examples is None else [self.examples.watch(hits.view)]
        if self.evaluation.decisive is not None:
            self.lengths[hits.view].count(batch.length[counted])
            aspect = Aspect(hits.view, *self.evaluation.decisive)
            watches.append(Watch(aspect, self.lengths[hits.view], batch.length))
            self.sums.add(hits, counted, relevant, lists.block, lists.prints, watches, further)

    def packed(self) -> Iterator[pa.RecordBatch]:
        if self.problems:
            yield _packed_row(NO_FOLD, HITS, b"", b"", self.problems)
            return
        for fold, tally in self.tallies.items():
            yield _row(fold, HITS, tally.counts)
        if self.labels is not None:
            yield from _label_rows(self.labels)
        if self.evaluation.details is not None:
            yield _row(NO_FOLD, COVERAGE, self.coverage.counts)
            for part, counts in self.sums.packed():
                yield _row(NO_FOLD, part, counts)
            for view, lengths in self.lengths.items():
                yield _row(NO_FOLD, LENGTHS + view, lengths.packed())
        if self.examples is not None:
            keep = np.array([self.examples.keep], np.int64).tobytes()
            for kept in self.examples.packed():
                yield _packed_row(NO_FOLD, EXAMPLES, keep, kept)

    @cached_property
    def coverage(self) -> Coverage:
        return self.evaluation.new_coverage()

    @cached_property
    def sums(self) -> PairedSums:
        return self.evaluation.new_sums()

    def _count_input(self, batch: Batch) -> None:
        texts = batch.texts
        # The lists of all labels repeat what those of the groups hold.
        slots = [s for s, slot in enumerate(texts.slots) if slot != ALL or len(texts.slots) == 1]
        start, size = texts.start[:, :, slots], (texts.stop - texts.start)[:, :, slots]
        best = np.full(size.shape, -np.inf)
        best[size > 0] = texts.score[start[size > 0]]
        if self.evaluation.scope == "joint":
            best = best.max(axis=2, keepdims=True)
        missing = size.sum(axis=2) == 0
        for fold in np.unique(batch.fold):
            here = batch.fold == fold
            judged = here & batch.judged
            self.tallies[int(fold)].input_counts[:] += [
                judged.sum(),
                (judged & missing.all(axis=1)).sum(),
                (here & ~batch.judged).sum(),
                *missing[judged].sum(axis=0),
                *((best[judged] <= 0) & (best[judged] > -np.inf)).sum(axis=(0, 2)),
            ]


@dataclass(frozen=True)
class _ListFacts:
    """What the details need of a batch in every view."""

    slots: tuple[str, ...]
    common: Ints
    block: Ints
    prints: Ints
    """The fingerprint of each text with its relevant labels."""

    @classmethod
    def of(cls, batch: Batch, details: Details, groups: tuple[str, ...]) -> _ListFacts:
        lists = batch.texts.by_group(groups)
        keys, size = id_keys(batch.text_id), batch.texts.relevant_counts(groups, ALL)
        # A label is hashed once per batch, however many texts carry it.
        relevant = batch.texts.relevant_labels(groups, ALL, np.ones(len(size), bool))
        labels, place = np.unique(relevant, return_inverse=True)
        label_keys = id_keys(batch.decode(labels))[place] if len(labels) else np.empty(0, np.int64)
        stop = np.cumsum(size)
        prints = text_fingerprints(keys, label_keys, stop - size, stop)
        return cls(lists.slots, common_candidates(lists), blocks_of(keys, details.blocks), prints)


def judged_hits(
    batch: Batch, evaluation: EvaluationPlan, grid: Grid, problems: Problems, best: BestLabels | None = None
) -> list[Hits]:
    """The hits of a batch. Texts without judgements have no relevant labels, hence no hits."""
    groups, rules = evaluation.layout.group_names, evaluation.rules
    ties = None if rules.ties == "ascending" else tie_order(batch, rules)
    hits, repeated = find_hits(batch.texts, grid, evaluation.views, groups, evaluation.scope, ties, best)
    if len(repeated):
        report_repeated(batch, repeated, evaluation.layout, problems)
    return hits


def id_keys(ids: pa.Array) -> Ints:
    """A number for each text or label that depends on its id alone."""
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.cast(pa.int64()).to_numpy())
    digests = (hashlib.blake2b(str(name).encode(), digest_size=8).digest() for name in ids.to_pylist())
    return np.frombuffer(b"".join(digests), np.int64)


def _label_rows(labels: LabelCounter) -> Iterator[pa.RecordBatch]:
    """The counts of labels so far, which then start again."""
    for fold, part, places, counts in labels.packed():
        yield _packed_row(fold, part, numbers_to_bytes(places), numbers_to_bytes(counts))


def _row(fold: int, part: str, counts: Ints, problems: Problems | None = None) -> pa.RecordBatch:
    """The counts that are not zero, and where; without places, all of them, if that is shorter."""
    places = np.flatnonzero(counts)
    if 2 * len(places) > len(counts):
        return _packed_row(fold, part, b"", numbers_to_bytes(counts), problems)
    return _packed_row(fold, part, numbers_to_bytes(places), numbers_to_bytes(counts[places]), problems)


def _packed_row(fold: int, part: str, places: bytes, counts: bytes, problems: Problems | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {
            "fold": pa.array([fold], pa.int32()),
            "part": pa.array([part], pa.string()),
            "places": pa.array([places], pa.binary()),
            "counts": pa.array([counts], pa.binary()),
            "problems": pa.array([problems.to_json() if problems else None], pa.string()),
        }
    )
