"""The texts most helped and most hurt by the recommended fusion: what a report shows of them, and in which words."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from fusion.statistics.watchers import HELPED, OUTCOMES
from jobs.evaluation.examples import FUSED, RELEVANT
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.findings import Example, ExampleLabel
from jobs.reporting.formats import MINUS, cell_name, full_metric_name, percent, points
from jobs.reporting.model import group_order
from jobs.reporting.parts import Entry, Table

SHOWN = 5
"""Texts of each kind and label group; the table `examples` of the results may have more."""
FIRST_WORDS = 8
"""Of a text, which stay in sight while its lists are folded."""
SIGN = "\N{CHECK MARK}"
"""Stands before a relevant label, so that it is seen without colour or weight, too."""
EXAMPLES_TITLE = "Texts most helped and most hurt"


@dataclass(frozen=True)
class GroupExamples:
    """The examples of a label group, which share a cell and a retriever."""

    label_group: str
    by_outcome: dict[str, tuple[Example, ...]]

    @property
    def heading(self) -> str:
        """What was compared."""
        first = next(example for examples in self.by_outcome.values() for example in examples)
        sides = f"{cell_name(first.cell)} against {first.retriever} alone"
        return f"{self.label_group} labels: {sides}, by {full_metric_name(first.aspect)} of the text"


def shown_examples(dataset: DatasetReport) -> list[GroupExamples]:
    """Those that a report shows, by label group, all labels first."""
    groups = []
    names = dict.fromkeys(example.aspect.label_group for example in dataset.examples)
    for group in sorted(names, key=lambda name: -group_order(name)):
        of_group = [example for example in dataset.examples if example.aspect.label_group == group]
        by_outcome = {
            outcome: tuple(one for one in of_group if one.outcome == outcome and one.place <= SHOWN)
            for outcome in OUTCOMES
        }
        groups.append(GroupExamples(group, by_outcome))
    return groups


def outcome_title(outcome: str) -> str:
    return "Most helped" if outcome == HELPED else "Most hurt"


def example_title(example: Example) -> str:
    """The text with its two figures, in percent, and its first words."""
    change = points(example.value - example.retriever_value)
    sides = f"{percent(example.value)} against {percent(example.retriever_value)}"
    words = example.excerpt.split()
    more = " \N{HORIZONTAL ELLIPSIS}" if len(words) > FIRST_WORDS else ""
    first = f". {' '.join(words[:FIRST_WORDS])}{more}" if words else ""
    return f"Text {example.text_id}: {change} ({sides}){first}"


def example_lists(example: Example) -> Table:
    """The lists side by side; relevant labels have a check mark and are bold."""
    names = {FUSED: f"fused by {cell_name(example.cell)}", RELEVANT: "relevant labels"}
    # The fused list comes first and the relevant labels last; between them are the retrievers, whatever their names.
    first, *retrievers, last = (ranked.name for ranked in example.lists)
    header: list[tuple[str, ...]] = [("rank",), (names[first],), *((name,) for name in retrievers), (names[last],)]
    lines = [
        [Entry(str(place)), *(_entry(label) for label in labels)]
        for place, labels in enumerate(zip_longest(*(ranked.labels for ranked in example.lists)), start=1)
    ]
    name = f"lists of text {example.text_id}, {example.aspect.label_group} labels, {example.outcome}"
    return Table(name, "", header, "r" + "l" * (len(header) - 1), [lines])


def _entry(label: ExampleLabel | None) -> Entry:
    if label is None:
        return Entry("")
    words = f"{label.name} ({label.label_id})" if label.name else label.label_id
    # Adding 0.0 makes 0.0 of -0.0.
    score = "in no list" if label.score is None else f"{label.score + 0.0:.3g}".replace("-", MINUS)
    return Entry(f"{SIGN} {words}, {score}" if label.relevant else f"{words}, {score}", bold=label.relevant)
