"""What a report shows, computed and ready to print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL, HEAD, TAIL
from fusion.metrics import Aspect
from jobs.settings.sections import Test

Evidence = Test | Literal["interval"]
"""A test, or the 95% interval over the texts, which is not corrected for other comparisons."""
Outcome = Literal["better", "worse", "not significantly different", "tests disagree", "not tested"]


def group_order(group: str) -> int:
    """Tail, head, other groups, all labels."""
    return {TAIL: 0, HEAD: 1, ALL: 3}.get(group, 2)


@dataclass(frozen=True)
class Comparison:
    """One cell against another. `difference`, its 95% interval and the effect size (mean difference over the standard
    deviation of differences) are over all texts; None where the results hold no such figure."""

    difference: float
    low: float | None = None
    high: float | None = None
    effect: float | None = None
    p_folds: float | None = None
    p_queries: float | None = None
    p_randomization: float | None = None
    texts: int | None = None

    def p(self, test: Test) -> float | None:
        return {"folds": self.p_folds, "queries": self.p_queries, "randomization": self.p_randomization}[test]


@dataclass(frozen=True)
class Verdict:
    """Whether one cell is better than another, and what that rests on: with one fold on the texts alone, with more on
    folds and texts together."""

    outcome: Outcome
    folds: int
    texts: int | None = None
    higher: bool = True
    """Whether the first of the two has the higher figure, which a test may say or not."""
    found_by: tuple[Evidence, ...] = ()
    missed_by: tuple[Evidence, ...] = ()
    """Where tests disagree: which of them find a difference, and which do not."""

    @property
    def significant(self) -> bool:
        return self.outcome in ("better", "worse")


@dataclass(frozen=True)
class Value:
    """A cell's figure in one aspect, as shares of 1."""

    mean: float
    std: float | None
    """None for one fold."""
    folds: dict[int, float]
    best: bool
    """Whether this is the best of the fused cells."""
    bold: bool
    """Best, or not significantly different from it by the deciding test."""
    against_best: Comparison | None
    """None for the best cell itself."""


@dataclass(frozen=True)
class Row:
    """The figures of a cell, or of a single retriever."""

    cell: Cell
    values: dict[Aspect, Value]

    @property
    def single(self) -> bool:
        return self.cell.normalization == SINGLE


@dataclass(frozen=True)
class Gain:
    """The best cell of an aspect and the best single retriever."""

    aspect: Aspect
    singles: dict[str, Value]
    better_single: str
    best: Cell
    best_value: Value
    comparison: Comparison
    """The best cell against the best single retriever."""
    verdict: Verdict


@dataclass(frozen=True)
class Share:
    """The relevant pairs (text, label) that a cell ranks among its first k, of all of them."""

    hits: int
    value: float
    low: float
    high: float
    """The 95% interval."""


class BandTest(NamedTuple):
    """A cell against a single retriever in a band: texts of which it finds more, and fewer, of the band's labels among
    its first k, and p of the sign test over texts."""

    more: int
    fewer: int
    p: float


@dataclass(frozen=True)
class Band:
    """Relevant pairs (text, label) by how frequent the label is: a tenth of the labels, or several that were joined
    for having few pairs; and the shares that each cell and single retriever ranks among its first k."""

    rarest: int
    commonest: int
    """The frequencies of its labels go from `rarest` to `commonest`."""
    labels: int
    pairs: int
    found: dict[Cell, dict[int, Share]]
    """By cell and k."""
    tests: dict[tuple[Cell, str], dict[int, BandTest]]
    """By cell, single retriever and k; empty where bands were joined after the texts were counted."""


By = Literal["unseen", "frequency", "text labels", "text words"]
"""What slices are made by: labels without a training text, the frequency of the label, or the number of labels or of
words of the text."""
OF_TEXTS: tuple[By, ...] = ("text labels", "text words")
"""Slices of texts; the others are slices of pairs of text and label."""


@dataclass(frozen=True)
class Slice:
    """Some of the pairs (text, label), or some of the texts, in which a cell is compared with a single retriever."""

    by: By
    low: int
    high: int | None
    """None: without end."""
    labels: int | None
    number: int
    """Of pairs, or of texts."""
    k: int
    single: str
    share: float
    of_single: float
    """Shares of pairs found in the first k, or the figure over the texts."""
    more: int | None
    fewer: int | None
    """Texts of which the cell finds more, and fewer, labels of the slice; None where the slice is one of texts."""
    p: float | None
    """Corrected over the slices of its kind."""
    outcome: Outcome


@dataclass(frozen=True)
class Safety:
    """Of a label group: the frequency bands that the deployed strategy loses on validation texts that had no part in
    it, and the best strategy that loses none."""

    lost: tuple[str, ...]
    objective: str
    safe: Cell | None
    """The deployed one itself, another one, or none."""
    cost: float
    """What that one is behind the deployed one, in the objective on the same texts."""


@dataclass(frozen=True)
class Standing:
    """Where the recommended cell stands in the decisive aspect of a label group."""

    aspect: Aspect
    cell: Cell
    value: Value
    best: Cell
    best_value: Value
    others_tied: int
    """Other results that are best or not significantly different from the best; counted if it is one of them."""
    cells: int
    results: int
    """Distinct results of these cells: a fusion that reads only ranks has one for all normalisations."""
    singles: dict[str, Value]
    better_single: str | None
    comparison: Comparison | None
    """Against the best single retriever."""
    verdict: Verdict | None
    choice: str = ""
    """Of a strategy: what it chose over all folds, which the model file holds."""
    slices: tuple[Slice, ...] = ()
    """Against every single retriever, from the rarest labels and the fewest labels per text on."""
    best_slices: tuple[Slice, ...] = ()
    """The same of the best cell, where that is another one."""
    safety: Safety | None = None
    """Of a strategy: what validation texts say about labels of every frequency."""

    @property
    def losses(self) -> tuple[Slice, ...]:
        return tuple(part for part in self.slices if part.outcome == "worse")

    @property
    def best_losses(self) -> tuple[Slice, ...]:
        return tuple(part for part in self.best_slices if part.outcome == "worse")


@dataclass(frozen=True)
class Recommendation:
    """The cell to deploy. Where fusions were chosen on validation texts: what the model file holds, which may be
    another one in each label group. Otherwise, of those that lose to a single retriever in the fewest aspects of the
    paper's protocol, the one with the smallest mean regret, its distance from the best cell."""

    regret: float
    winners: dict[Aspect, Cell]
    standings: tuple[Standing, ...]
    """By label group, the one that matters most first."""
    deployed: bool
    """Whether it is what the model file holds."""

    @property
    def cell(self) -> Cell:
        """That of the label group that matters most."""
        return self.standings[0].cell

    def of(self, group: str) -> Cell | None:
        """That of a label group."""
        return next((one.cell for one in self.standings if one.aspect.label_group == group), None)


@dataclass(frozen=True)
class LabelChange:
    """A label that the recommended cell helps or hurts against a single retriever."""

    label_group: str
    cell: Cell
    retriever: str
    outcome: str
    label_id: str
    name: str
    """Empty where it is not known."""
    pairs: int
    k: int
    found: int
    retriever_found: int
    """Relevant pairs among the first k."""
    watched: int
    most_unwatched: int
    """It was chosen among the `watched` most frequent labels; no other has more than `most_unwatched` pairs."""


@dataclass(frozen=True)
class RankedCell:
    """A cell, or a single retriever, with the mean of its ranks."""

    cell: Cell
    rank: float


@dataclass(frozen=True)
class Ranking:
    """The cells of a label group by their mean rank; cells of one tie are not significantly different."""

    label_group: str
    cells: tuple[RankedCell, ...]
    ties: tuple[tuple[Cell, ...], ...]
    over: str
    """What the ranks are the mean of."""


@dataclass(frozen=True)
class Agreement:
    """What the retrievers have in common in the lists of one label group, and what any fusion of them can reach."""

    label_group: str
    candidates: dict[str, float]
    """The mean length of each retriever's lists."""
    overlap: dict[tuple[str, str], float]
    """Of each pair of retrievers: common candidates over all candidates of the two."""
    found: dict[str, float]
    """The share of relevant labels that each retriever lists."""
    alone: dict[str, float]
    """The share of relevant labels that no other retriever lists."""
    union: float
    """The share of relevant labels that some retriever lists: no fusion finds more."""
    ceiling: dict[Aspect, float]
    """The figures of a ranking with all found relevant labels first: no fusion is better."""


@dataclass(frozen=True)
class PaperFigures:
    """The paper's table of the same dataset."""

    table: str
    values: dict[tuple[Cell, Aspect], tuple[float, float]]
    """Mean and standard deviation, as shares of 1."""
    rank_correlation: dict[Aspect, float]
    """Spearman's, over the cells whose figures in the paper can be right."""
    compared: int
    left_out: str


FALLEN = ("dataset", "what fell", "from", "to", "change [95%]", "texts tested", "p")
"""The columns of the table of figures that fell."""


@dataclass(frozen=True)
class NightBanner:
    """The verdict of a night, with which every page of it begins. Nights make it; the report only prints it."""

    run_id: str
    exit_code: int
    headline: str
    fallen: tuple[tuple[str, ...], ...] = ()
    """A row per watched figure that fell, with these columns."""
    notes: tuple[str, ...] = ()
    """Lines below the headline."""
