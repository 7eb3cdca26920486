"""What is to be evaluated, as the workers get it, and the empty counts that it asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import SINGLE, Cell
from fusion.grid.grid import Grid
from fusion.grid.trained import Learned
from fusion.kernel.candidates import DEFAULT, Policies
from fusion.kernel.texts import Scope
from fusion.labels import ALL, frequency_bands
from fusion.metrics import LARGEST_TABLE, Metric, decisive, is_tabled, metric_parts, text_metrics
from fusion.models.strategies import Strategy
from fusion.statistics.coverage import BANDS, UNSEEN, Coverage, joined_bands
from fusion.statistics.label_counts import BestLabels, LabelCounts, label_sums
from fusion.statistics.paired import UNIT, PairedSums
from fusion.statistics.tally import Tally
from fusion.statistics.watchers import LengthSums
from fusion.types import Array, Floats, Int32s, Ints
from fusion.worth import PLAIN_RULES, Rules
from udfs.examples import ExampleTexts
from udfs.lists import LabelGroups, LabelIndex, Layout, number_labels
from udfs.texts import Batch

WATCHED = 1024
"""Labels that are counted singly in each view, the most frequent ones: a label changes by no more pairs than it has."""


@dataclass(frozen=True)
class CountedLabels:
    """The frequency band and the place among the watched labels of every judged label, by view."""

    bands: Mapping[str, LabelGroups]
    watched: Mapping[str, LabelGroups]
    unseen: Mapping[int, pa.Array] | None = None
    """By fold, the labels of test texts that no training text carries; None where training texts are not known."""

    @property
    def most_watched(self) -> int:
        return max((len(watched.ids) for watched in self.watched.values()), default=0)

    def bands_of(self, view: str, labels: pa.Array, fold: Int32s) -> Array:
        """The band of each label of a text that the fold tests."""
        bands = self.bands[view].lookup(labels)
        for number, unseen in (self.unseen or {}).items():
            if len(unseen) and (fold == number).any():
                among = pc.is_in(labels, value_set=unseen.cast(labels.type)).to_numpy(zero_copy_only=False)
                bands = np.where(among & (fold == number), np.int8(UNSEEN), bands)
        return bands


def counted_labels(
    ids: pa.Array,
    counts: Ints,
    views: tuple[str, ...],
    groups: LabelGroups | None,
    unseen: Mapping[int, pa.Array] | None,
) -> CountedLabels:
    """From how many texts carry each label."""
    numbers = number_labels(ids)[0]
    tenths = frequency_bands(numbers, counts, BANDS)
    group_of = groups.lookup(ids) if groups else None
    bands, watched = {}, {}
    for view in views:
        inside = np.ones(len(ids), np.bool_)
        if view != ALL and groups is not None and group_of is not None:
            inside = np.asarray(group_of == groups.names.index(view))
        mine = np.flatnonzero(inside)
        bands[view] = LabelGroups(
            tuple(map(str, range(BANDS))), ids.take(pa.array(mine)), joined_bands(tenths[mine], counts[mine])
        )
        # The most frequent first; of equal ones, the lower id.
        order = np.lexsort((numbers[mine], -counts[mine]))[:WATCHED]
        watched[view] = LabelGroups((), ids.take(pa.array(mine[order])), np.arange(len(order), dtype=np.int16))
    return CountedLabels(bands, watched, unseen)


JUDGED = "judged_texts"
WITHOUT_CANDIDATES = "judged_texts_without_candidates"
UNJUDGED = "unjudged_texts"
EMPTY_LISTS, NONPOSITIVE_LISTS = "empty_lists", "nonpositive_lists"
"""One count per retriever: judged texts that it returned nothing for, and lists whose best score is not positive."""

UNSEEN_PAIRS = "pairs_without_training_text"
"""Relevant pairs of text and label whose label no training text carries; only where training texts are known."""


def per_retriever(kind: str, retriever: str) -> str:
    """The key of a count that every retriever has."""
    return f"{kind}:{retriever}"


def split_key(key: str) -> tuple[str, str]:
    """The kind of a count and its retriever, which is empty where there is none."""
    kind, _, retriever = key.partition(":")
    return kind, retriever


def count_keys(retrievers: Sequence[str]) -> list[str]:
    """All counts, in the order in which they are kept."""
    each = [per_retriever(kind, name) for kind in (EMPTY_LISTS, NONPOSITIVE_LISTS) for name in retrievers]
    return [JUDGED, WITHOUT_CANDIDATES, UNJUDGED, *each]


LABELS = "labels "
"""The beginning of the parts that count labels; then come a view, a column and the number of cut-offs. Added up, they
are sums over labels, floats and no counts."""


@dataclass(frozen=True)
class LabelPlan:
    """What is counted per label, where a metric is a mean over labels."""

    index: LabelIndex
    """The judged labels."""
    fused: tuple[Cell, ...]
    """The fused cells that have such figures."""
    cells: tuple[Cell, ...]
    """These, and the single retrievers."""
    cutoffs: tuple[int, ...]


def part_name(view: str, column: int, cutoffs: int) -> str:
    """The part that holds the counts of a view and a column."""
    return f"{LABELS}{view} {column} {cutoffs}"


def sums_over_labels(part: str, counts: Ints) -> bytes:
    """From all counts of a part to what follows from them (see fusion/statistics/label_counts.py), as floats."""
    return np.array(label_sums(counts, int(part.rpartition(" ")[2]))).tobytes()


class LabelCounter:
    """Counts the labels that texts carry and that chosen columns list for them."""

    def __init__(self, plan: LabelPlan, layout: Layout) -> None:
        self._plan, self._layout = plan, layout
        self._counts = LabelCounts(plan.cutoffs)

    @property
    def entries(self) -> int:
        """How many counts wait to be sent."""
        return self._counts.entries

    def add(self, batch: Batch, view: str, best: BestLabels, counted: Array) -> None:
        """The texts of a batch that count in a view, with the labels that were listed."""
        index, groups, folds = self._plan.index, self._layout.group_names, np.unique(batch.fold)
        inside = [counted & (batch.fold == fold) for fold in folds]
        carried = [index.places(batch.decode(batch.texts.relevant_labels(groups, view, here))) for here in inside]
        for column in sorted(best.columns):
            listed = best.of(view, column)
            place = index.places(batch.decode(listed.label))
            for fold, here, of_texts in zip(folds.tolist(), inside, carried, strict=True):
                key = (fold, view, column)
                self._counts.add_carried(key, of_texts)
                # Labels that no text carries are not in the index, and do not count.
                self._counts.add_listed(key, listed, place, len(index.ids), here, batch.texts.relevant)

    def packed(self) -> Iterator[tuple[int, str, Ints, Ints]]:
        """The counts that wait: fold and part, the places in the part's vector, and the counts there."""
        for (fold, view, column), places, counts in self._counts.packed():
            yield fold, part_name(view, column, len(self._counts.cutoffs)), places, counts


DEFAULT_CUTOFF = 10
"""Where no metric has a cut-off, label frequencies are looked at among this many first labels."""


@dataclass(frozen=True)
class Details:
    """What is counted in addition to the hits: comparisons text by text, and what the retrievers' lists hold."""

    labels: CountedLabels
    blocks: int
    """Sign blocks of the randomisation test."""
    randomizations: int
    """Sign vectors; 0: no such test."""
    seed: int
    examples: int = 0
    """Texts most helped and most hurt that are kept of every cell against every retriever."""


class Ranking(Protocol):
    """How lists are ranked."""

    @property
    def grid(self) -> Grid: ...

    @property
    def views(self) -> tuple[str, ...]: ...

    @property
    def scope(self) -> Scope: ...


@dataclass(frozen=True)
class EvaluationPlan:
    """The cells, views and metrics, with everything but the lists that figures depend on."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    metrics: tuple[Metric, ...]
    details: Details | None = None
    rules: Rules = PLAIN_RULES
    propensities: Propensities | None = None
    labels: LabelPlan | None = None
    policies: Policies = DEFAULT
    learned: Mapping[str, Learned] = field(default_factory=dict)
    strategies: Mapping[Cell, Strategy] = field(default_factory=dict)

    @property
    def k(self) -> int:
        """The deepest cut-off of the metrics that follow from hits by rank; 0 if there are none."""
        return max((metric.deepest for metric in self.metrics if is_tabled(metric, self.rules)), default=0)

    @cached_property
    def depth(self) -> int:
        """The last rank that details look at, other than those that single texts have figures for."""
        return max(self.k, *self._cutoffs, self._label_cutoff)

    @property
    def _cutoffs(self) -> list[int]:
        """Where label frequencies are looked at."""
        return [k for k in (metric.deepest for metric in self.metrics) if 0 < k <= LARGEST_TABLE] or [DEFAULT_CUTOFF]

    @property
    def _label_cutoff(self) -> int:
        """Where single labels are looked at."""
        return min(decisive(self.metrics).deepest or DEFAULT_CUTOFF, LARGEST_TABLE)

    @cached_property
    def further_metrics(self) -> list[Metric]:
        """The metrics that need every text's figure."""
        return [metric for metric in text_metrics(self.metrics) if not is_tabled(metric, self.rules)]

    @cached_property
    def grid(self) -> Grid:
        return Grid(self.cells, self.layout.retrievers, self.policies, self.learned, self.strategies)

    @cached_property
    def columns(self) -> dict[Cell, int]:
        """The column of every cell and, behind those, of every single retriever."""
        grid = self.grid
        singles = {Cell(SINGLE, name): len(grid.columns) + r for r, name in enumerate(self.layout.retrievers)}
        return {**grid.column_of, **singles}

    def new_tally(self) -> Tally:
        counted = metric_parts(self.further_metrics)
        return Tally(self.views, self._width, self.k, len(count_keys(self.layout.retrievers)), counted)

    def new_coverage(self) -> Coverage:
        assert self.details is not None
        watched = self.details.labels.most_watched
        return Coverage(
            self.views, len(self.layout.retrievers), self._width, self._cutoffs, watched, self._label_cutoff
        )

    def new_sums(self) -> PairedSums:
        assert self.details is not None
        vectors, seed = self.details.randomizations, self.details.seed
        blocks = self.details.blocks if vectors else 0
        metrics = text_metrics(self.metrics)
        return PairedSums(
            views=self.views,
            metrics=metrics,
            columns=self._width,
            blocks=blocks,
            vectors=vectors,
            seed=seed,
            rules=self.rules,
        )

    def new_examples(self) -> ExampleTexts | None:
        """None where no examples are kept."""
        assert self.details is not None
        if not self.details.examples or not text_metrics(self.metrics):
            return None
        columns, retrievers = len(self.grid.columns), len(self.layout.retrievers)
        of = (columns, retrievers, decisive(self.metrics), self.details.examples)
        return ExampleTexts(self.layout, self.views, *of)

    @cached_property
    def decisive(self) -> Metric | None:
        """The metric by which the texts of a cell are looked at more closely; None where no text has a figure."""
        of_texts = text_metrics(self.metrics)
        return decisive(of_texts) if of_texts else None

    def new_lengths(self) -> dict[str, LengthSums]:
        """By view, what is added up by the length of texts."""
        if self.decisive is None:
            return {}
        columns, retrievers = len(self.grid.columns), len(self.layout.retrievers)
        return {view: LengthSums(columns, retrievers, UNIT) for view in self.views}

    def best_labels(self, labels: LabelPlan) -> BestLabels:
        """What gathers the labels that chosen cells list."""
        return BestLabels([self.columns[cell] for cell in labels.cells], max(labels.cutoffs))

    @property
    def _width(self) -> int:
        return 1 + max(self.columns.values())


@dataclass(frozen=True)
class Propensities:
    """The inverse propensity of every label in every fold, by its frequency among the fold's training texts."""

    folds: Ints
    ids: pa.Array
    inverse: Floats
    """[fold, label]; the last entry of a fold is that of a label without training texts."""
    ANY_FOLD: ClassVar[int] = -1
    """Stands alone, for all folds, where folds have the same training texts."""

    def of(self, fold: Array, labels: pa.Array) -> Floats:
        """Of labels, each in a fold."""
        row = np.zeros_like(fold) if self.folds[0] == self.ANY_FOLD else np.searchsorted(self.folds, fold)
        return self.inverse[row, self.index.places(labels)]

    @cached_property
    def index(self) -> LabelIndex:
        return LabelIndex(self.ids)
