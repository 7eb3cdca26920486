"""What is to be evaluated, as the workers get it, and the empty counts that it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fusion.grid import SINGLE, Cell, Grid
from fusion.kernel.blocks import Scope
from fusion.kernel.candidates import DEFAULT, Policies
from fusion.learning import Learned
from fusion.metrics import LARGEST_TABLE, Measure, decisive, is_tabled, text_measures
from fusion.statistics.coverage import Coverage
from fusion.statistics.label_counts import BestLabels
from fusion.statistics.paired import UNIT, PairedSums
from fusion.statistics.tally import Tally
from fusion.statistics.text_lengths import LengthSums
from fusion.tuning.strategies import Strategy
from fusion.worth import PLAIN_RULES, Rules
from udfs.counted_labels import CountedLabels
from udfs.example_texts import ExampleTexts
from udfs.input_counts import count_keys
from udfs.judged_texts import Propensities
from udfs.label_counting import LabelPlan
from udfs.list_codes import Layout

DEFAULT_CUTOFF = 10
"""Where no measure has a cut-off, label frequencies are looked at among so many first labels."""


@dataclass(frozen=True)
class Details:
    """What is counted beside the hits: comparisons text by text, and what the retrievers' lists hold."""

    labels: CountedLabels
    blocks: int
    """Sign blocks of the randomisation test."""
    randomizations: int
    """Sign vectors; 0: no such test."""
    seed: int
    examples: int = 0
    """Texts most helped and most hurt that are kept of every cell against every retriever."""


@dataclass(frozen=True)
class EvaluationPlan:
    """The cells, views and measures, with everything that figures depend on beside the lists."""

    layout: Layout
    cells: tuple[Cell, ...]
    views: tuple[str, ...]
    scope: Scope
    measures: tuple[Measure, ...]
    details: Details | None = None
    rules: Rules = PLAIN_RULES
    propensities: Propensities | None = None
    labels: LabelPlan | None = None
    policies: Policies = DEFAULT
    learned: Mapping[str, Learned] = field(default_factory=dict)
    strategies: Mapping[Cell, Strategy] = field(default_factory=dict)

    @property
    def k(self) -> int:
        """The deepest cut-off of the measures that hits by rank tell; 0 if there are none."""
        return max((measure.k for measure in self.measures if is_tabled(measure, self.rules)), default=0)

    @cached_property
    def depth(self) -> int:
        """The last rank that details look at, other than those that single texts have figures for."""
        return max(self.k, *self._cutoffs, self._label_cutoff)

    @property
    def _cutoffs(self) -> list[int]:
        """Where label frequencies are looked at."""
        return [measure.k for measure in self.measures if 0 < measure.k <= LARGEST_TABLE] or [DEFAULT_CUTOFF]

    @property
    def _label_cutoff(self) -> int:
        """Where single labels are looked at."""
        return min(decisive(self.measures).k or DEFAULT_CUTOFF, LARGEST_TABLE)

    @cached_property
    def further_measures(self) -> list[Measure]:
        """The measures that need every text's figure."""
        return [measure for measure in text_measures(self.measures) if not is_tabled(measure, self.rules)]

    @cached_property
    def grid(self) -> Grid:
        return Grid(self.cells, self.layout.retrievers, self.policies, self.learned, self.strategies)

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
        return Tally(self.views, self._width, self.k, len(self.count_keys), self.further_measures)

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
        measures = text_measures(self.measures)
        return PairedSums(self.views, measures, self._width, blocks, vectors, seed, self.rules)

    def new_examples(self) -> ExampleTexts | None:
        """None where no examples are kept."""
        if self.details is None or not self.details.examples or not text_measures(self.measures):
            return None
        columns, retrievers = len(self.grid.columns), len(self.layout.retrievers)
        of = (columns, retrievers, decisive(self.measures), self.details.examples)
        return ExampleTexts(self.layout, self.views, *of)

    @cached_property
    def decisive(self) -> Measure | None:
        """The measure by which the texts of a cell are looked at more closely; None where no text has a figure."""
        of_texts = text_measures(self.measures)
        return decisive(of_texts) if of_texts else None

    def new_lengths(self) -> dict[str, LengthSums]:
        """By view, what is added up by the length of texts."""
        if self.details is None or self.decisive is None:
            return {}
        columns, retrievers = len(self.grid.columns), len(self.layout.retrievers)
        return {view: LengthSums(columns, retrievers, UNIT) for view in self.views}

    def best_labels(self) -> BestLabels | None:
        """What gathers the labels that chosen cells list; None where no metric asks for them."""
        if self.labels is None:
            return None
        return BestLabels([self.columns[cell] for cell in self.labels.cells], max(self.labels.cutoffs))

    @property
    def _width(self) -> int:
        return 1 + max(self.columns.values())
