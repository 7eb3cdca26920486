"""Evaluation inside Spark: list rows in, packed counts (or one text's figures) out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from fusion.grid import SINGLE, Cell, Grid
from fusion.kernel.blocks import Hits, Scope, find_hits
from fusion.kernel.candidates import DEFAULT, Policies
from fusion.label_groups import ALL
from fusion.learning import Learned
from fusion.metrics import Measure, decisive
from fusion.statistics.coverage import Coverage, common_candidates
from fusion.statistics.paired import PairedSums
from fusion.statistics.random_signs import blocks_of
from fusion.statistics.tally import Tally
from fusion.types import Array, Ints
from udfs.example_texts import ExampleTexts, from_bytes, most_extreme, to_bytes
from udfs.input_counts import count_keys
from udfs.list_codes import LabelGroups, Layout
from udfs.problems import Problems
from udfs.text_batches import Batch, Work, report_repeated

COUNTS_SCHEMA = "fold int, part string, places binary, counts binary, problems string"
"""A vector of counts: of a fold (part `hits`), or of all folds (fold NO_FOLD; part `coverage`, or the name of what is
compared). `places` says which are given; empty: all, in order. Part `examples` holds no counts but rows of texts (see
udfs/example_texts.py); its `places` says how many are kept."""
COUNTS = ("fold", "part")
"""What identifies a vector of counts."""
NO_FOLD = -1
HITS, COVERAGE, EXAMPLES = "hits", "coverage", "examples"


@dataclass(frozen=True)
class Details:
    """What is counted beside the hits: comparisons text by text, and what the retrievers' lists hold."""

    bands: LabelGroups
    """The frequency band of every judged label."""
    blocks: int
    """Blocks of texts that the randomisation test gives random signs."""
    randomizations: int
    """Sign vectors; 0: no such test."""
    seed: int
    examples: int = 0
    """Texts most helped and most hurt that are kept of every cell against every retriever."""


@dataclass(frozen=True)
class Evaluation:
    """What is to be evaluated, as the workers get it."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    measures: tuple[Measure, ...]
    details: Details | None = None
    policies: Policies = DEFAULT
    learned: Mapping[str, Learned] = field(default_factory=dict)

    @property
    def k(self) -> int:
        return max(measure.k for measure in self.measures)

    @cached_property
    def grid(self) -> Grid:
        return Grid(self.cells, self.layout.retrievers, self.policies, self.learned)

    @cached_property
    def columns(self) -> dict[Cell, int]:
        """The column of every cell and, behind those, of every single retriever."""
        grid = self.grid
        singles = {Cell(SINGLE, name): len(grid.columns) + r for r, name in enumerate(self.layout.retrievers)}
        return {**grid.column_of, **singles}

    @property
    def count_keys(self) -> list[str]:
        """What is counted about the input beside the hits."""
        return count_keys(self.layout.retrievers)

    def new_tally(self) -> Tally:
        return Tally(self.views, self._width, self.k, len(self.count_keys))

    def new_coverage(self) -> Coverage:
        cutoffs = [measure.k for measure in self.measures]
        return Coverage(self.views, len(self.layout.retrievers), self._width, cutoffs)

    def new_sums(self) -> PairedSums:
        assert self.details is not None
        vectors, seed = self.details.randomizations, self.details.seed
        blocks = self.details.blocks if vectors else 0
        return PairedSums(self.views, self.measures, self._width, blocks, vectors, seed)

    def new_examples(self) -> ExampleTexts | None:
        """None where no examples are kept."""
        if self.details is None or not self.details.examples:
            return None
        columns, retrievers = len(self.grid.columns), len(self.layout.retrievers)
        return ExampleTexts(self.views, columns, retrievers, decisive(self.measures), self.details.examples)

    @property
    def _width(self) -> int:
        return 1 + max(self.columns.values())


def count_hits(evaluation: Evaluation) -> Work:
    """The work of an engine: one row of packed counts per fold and part."""

    def run(batches: Iterator[Batch], problems: Problems) -> Iterator[pa.RecordBatch]:
        counter = Counter(evaluation, problems)
        for batch in batches:
            counter.add(batch)
        yield from counter.packed()

    return run


def add_counts(table: pa.Table) -> pa.Table:
    """For `applyInArrow` by fold and part: packed counts added up."""
    problems = Problems.from_json(text for text in table["problems"].to_pylist() if text)
    fold, part = table["fold"][0].as_py(), table["part"][0].as_py()
    if part == EXAMPLES:
        keep = table["places"][0].as_py()
        rows = most_extreme(from_bytes(table["counts"].to_pylist()), int(np.frombuffer(keep, np.int64)[0]))
        return pa.Table.from_batches([_packed_row(fold, part, keep, to_bytes(rows), problems)])
    total = np.zeros(0, np.int64)
    for places, counts in unpacked(table):
        longer = max(len(total), int(places.max(initial=-1)) + 1)
        total = np.concatenate([total, np.zeros(longer - len(total), np.int64)])
        np.add.at(total, places, counts)
    return pa.Table.from_batches([_row(fold, part, *_packed(total), problems)])


def unpacked(table: pa.Table) -> Iterator[tuple[Ints, Ints]]:
    """The counts of every row: where, and how many."""
    for where, how_many in zip(table["places"].to_pylist(), table["counts"].to_pylist(), strict=True):
        counts = np.frombuffer(how_many, np.int64)
        yield np.frombuffer(where, np.int64) if where else np.arange(len(counts)), counts


def _packed(numbers: Ints) -> tuple[Ints, Ints]:
    """The numbers that are not zero, and where; without places, all of them, if that is shorter."""
    places = np.flatnonzero(numbers)
    return (places[:0], numbers) if 2 * len(places) > len(numbers) else (places, numbers[places])


class Counter:
    """Adds up the hits of many batches, fold by fold."""

    def __init__(self, evaluation: Evaluation, problems: Problems) -> None:
        self.evaluation = evaluation
        self.grid = evaluation.grid
        self.problems = problems
        self.tallies: dict[int, Tally] = {}
        self.examples = evaluation.new_examples()

    def add(self, batch: Batch) -> None:
        evaluation = self.evaluation
        self._count_input(batch)
        hits = judged_hits(batch, evaluation, self.grid, self.problems)
        if self.problems:
            return
        relevant_all = batch.texts.relevant_counts(evaluation.layout.group_names, ALL)
        lists = (
            None
            if evaluation.details is None
            else _ListFacts.of(batch, evaluation.details, evaluation.layout.group_names)
        )
        if self.examples is not None:
            self.examples.begin(batch.text_id, batch.fold)
        for v, view in enumerate(evaluation.views):
            relevant = batch.texts.relevant_counts(evaluation.layout.group_names, view)
            counted = batch.judged if view == ALL else batch.judged & (relevant > 0)
            for fold in np.unique(batch.fold):
                tally = self._tally(int(fold))
                here = counted & (batch.fold == fold)
                tally.add_queries(v, relevant_all[here], relevant[here])
                mine = here[hits[v].text]
                text = hits[v].text[mine]
                tally.add_hits(v, hits[v].ranks[mine], relevant_all[text], relevant[text])
            if lists is not None:
                self._add_details(lists, v, batch, hits[v], counted, [relevant_all, relevant])
        if self.examples is not None:
            self.examples.end()

    def _add_details(
        self, lists: _ListFacts, view: int, batch: Batch, hits: Hits, counted: Array, relevant: list[Ints]
    ) -> None:
        """Hits are relevant labels, so their texts all count in the view."""
        assert self.evaluation.details is not None
        bands = self.evaluation.details.bands
        self.coverage.add(view, lists.slots, lists.common, counted, hits, relevant)
        labels = batch.texts.relevant_labels(self.evaluation.layout.group_names, hits.view, counted)
        band_of = [bands.lookup(batch.decode(these)) for these in (labels, hits.label)]
        self.coverage.add_bands(view, band_of[0], hits, band_of[1])
        watch = None if self.examples is None else self.examples.watch(hits.view)
        self.sums.add(hits, counted, relevant, lists.block, watch)

    def packed(self) -> Iterator[pa.RecordBatch]:
        if self.problems:
            yield _row(NO_FOLD, HITS, *_NOTHING, self.problems)
            return
        for fold, tally in self.tallies.items():
            yield _row(fold, HITS, *tally.packed())
        if self.evaluation.details is not None:
            yield _row(NO_FOLD, COVERAGE, *self.coverage.packed())
            for part, counts in self.sums.packed():
                yield _row(NO_FOLD, part, *_packed(counts))
        if self.examples is not None:
            keep = np.array([self.examples.keep], np.int64).tobytes()
            for rows in self.examples.packed():
                yield _packed_row(NO_FOLD, EXAMPLES, keep, rows)

    @cached_property
    def coverage(self) -> Coverage:
        return self.evaluation.new_coverage()

    @cached_property
    def sums(self) -> PairedSums:
        return self.evaluation.new_sums()

    def _tally(self, fold: int) -> Tally:
        if fold not in self.tallies:
            self.tallies[fold] = self.evaluation.new_tally()
        return self.tallies[fold]

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
            self._tally(int(fold)).input_counts[:] += [
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

    @classmethod
    def of(cls, batch: Batch, details: Details, groups: tuple[str, ...]) -> _ListFacts:
        lists = batch.texts.by_group(groups)
        return cls(lists.slots, common_candidates(lists), blocks_of(text_keys(batch.text_id), details.blocks))


def judged_hits(batch: Batch, evaluation: Evaluation, grid: Grid, problems: Problems) -> list[Hits]:
    """The hits of a batch. Texts without judgements have no relevant labels, hence no hits."""
    hits, repeated = find_hits(batch.texts, grid, evaluation.views, evaluation.layout.group_names, evaluation.scope)
    if len(repeated):
        report_repeated(batch, repeated, evaluation.layout, problems)
    return hits


def text_keys(text_id: pa.Array) -> Ints:
    """A number for each text that depends on its id alone."""
    if pa.types.is_integer(text_id.type):
        return np.asarray(text_id.cast(pa.int64()).to_numpy())
    digests = (hashlib.blake2b(str(text).encode(), digest_size=8).digest() for text in text_id.to_pylist())
    return np.frombuffer(b"".join(digests), np.int64)


_NOTHING = (np.empty(0, np.int64), np.empty(0, np.int64))


def _row(fold: int, part: str, places: Ints, counts: Ints, problems: Problems | None = None) -> pa.RecordBatch:
    return _packed_row(fold, part, places.tobytes(), counts.tobytes(), problems)


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
