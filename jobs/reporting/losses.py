"""Where the recommended cell loses, and to whom: slices of labels and texts, single labels, and labels that no training
text carries; and the single texts that it helps and hurts most.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from typing import get_args

from fusion.cells import SINGLE, Cell
from fusion.statistics.coverage import FEWEST_PAIRS
from fusion.statistics.watchers import HELPED, OUTCOMES
from jobs.evaluation.examples import FUSED, RELEVANT
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.findings import Example, ExampleLabel
from jobs.reporting.formats import (
    MINUS,
    NOTHING,
    cell_name,
    count,
    full_metric_name,
    joined,
    objective_name,
    p_value,
    percent,
    points,
    span,
)
from jobs.reporting.model import OF_TEXTS, By, LabelChange, Safety, Slice, Standing, group_order
from jobs.reporting.parts import Entry, Table

NO_COST = 0.00005
"""What is less is shown as 0.00 points."""


def labels_of(group: str) -> str:
    return f"{group} labels"


def losing_words(losses: Sequence[Slice]) -> str:
    """Labels with up to 8 texts and texts with 1 label; nothing where it never loses."""
    where = []
    for by in get_args(By):
        losing = ranges([loss for loss in losses if loss.by == by])
        where += [_where(by, losing)] if losing else []
    return joined(where)


def ranges(losses: Sequence[Slice]) -> list[str]:
    """Slices that follow each other as one: "up to 26", "58 to 86", "11 or more"."""
    ends: list[list[int | None]] = []
    last: int | None = -1
    for loss in sorted({(loss.low, loss.high if loss.high is not None else -1) for loss in losses}):
        low, high = loss[0], None if loss[1] == -1 else loss[1]
        if ends and last is not None and low <= last + 1:
            ends[-1][1] = high
        else:
            ends.append([low, high])
        last = high
    return [_range(low or 0, high) for low, high in ends]


def _range(low: int, high: int | None) -> str:
    if high is None:
        return f"{count(low)} or more"
    return f"up to {count(high)}" if low <= 1 and high > 1 else span(low, high)


def loss_lines(dataset: DatasetReport) -> list[str]:
    """A line per label group: where the recommended cell loses to a single retriever, or that it nowhere does."""
    lines = []
    for standing in dataset.recommendation.standings if dataset.recommendation else ():
        group = labels_of(standing.aspect.label_group)
        judged = [one for one in standing.slices if one.outcome != "not tested"]
        if standing.losses:
            lines += [f"{group}: loses to {loss_line(loss, standing)}" for loss in standing.losses]
        elif judged:
            lines.append(f"{group}: in none of {len(judged)} tested slices does it lose to a single retriever")
        if standing.best_losses:
            best = f"{cell_name(standing.best)}, the winner of {full_metric_name(standing.aspect)}"
            lines.append(f"{group}: {best}, loses on {losing_words(standing.best_losses)}")
        if standing.safety is not None:
            lines.append(f"{group}: {safety_line(standing.safety, cell_name(standing.cell))}")
    return lines


def loss_line(loss: Slice, standing: Standing) -> str:
    """The retriever, where, by how much, over how many, and whether that can be chance."""
    of_texts = loss.by in OF_TEXTS
    what = full_metric_name(standing.aspect) if of_texts else f"found in the first {loss.k}"
    unit = "text" if of_texts else "pair"
    return (
        f"{loss.single} on {_where(loss.by, [slice_range(loss)])}: {percent(loss.share)} against "
        f"{percent(loss.of_single)} {what} ({count(loss.number, unit)}, p {p_value(loss.p)})"
    )


def _where(by: By, ranges: list[str]) -> str:
    """Labels with 4-8 texts, texts with 1 label or up to 20 words, or labels without a training text."""
    if by == "unseen":
        return "labels without a training text"
    units: dict[By, str] = {"frequency": "text", "text labels": "label", "text words": "word"}
    what, unit = "texts" if by in OF_TEXTS else "labels", units[by]
    return f"{what} with {joined(ranges)} {unit}{'s' * (ranges != ['1'])}"


def slice_range(loss: Slice) -> str:
    if loss.high is None:
        return f"{count(loss.low)} or more"
    return span(loss.low, loss.high) if loss.low else f"up to {count(loss.high)}"


SLICE_TABLES: tuple[By, ...] = ("frequency", *OF_TEXTS)
"""What there is a table of slices by; labels without a training text are in that of frequencies."""


def slice_table(dataset: DatasetReport, standing: Standing, by: By) -> Table | None:
    """The recommended cell against each single retriever, from the rarest labels or the smallest texts on."""
    kinds = ("unseen", "frequency") if by == "frequency" else (by,)
    slices = [part for part in standing.slices if part.by in kinds]
    if not slices:
        return None
    frequency = by == "frequency"
    lines = []
    for part in slices:
        moved = NOTHING if part.more is None else f"{count(part.more)} / {count(part.fewer or 0)}"
        words = [
            "no training text" if part.by == "unseen" else slice_range(part),
            *([count(part.labels or 0)] if frequency else []),
            count(part.number),
            part.single,
        ]
        words += [percent(part.share), percent(part.of_single), points(part.share - part.of_single)]
        words += [*([moved] if frequency else []), p_value(part.p)]
        loses = part.outcome == "worse"
        lines.append([*map(Entry, words), Entry("loses" if loses else part.outcome, bold=loses)])
    what = f"relevant labels found in the first {slices[0].k}" if frequency else full_metric_name(standing.aspect)
    counted = "words" if by == "text words" else "labels"
    first = ["texts per label", "labels", "pairs"] if frequency else [f"{counted} per text", "texts"]
    header = [*first, "against", cell_name(standing.cell), "alone", "difference"]
    header += [*(["texts with more / fewer"] if frequency else []), "p", "verdict"]
    group = labels_of(standing.aspect.label_group)
    title = "label frequency" if frequency else f"number of {counted} per text"
    return Table(
        f"{by.replace(' ', '-')}-{standing.aspect.label_group}",
        f"{dataset.name}, {group}: {cell_name(standing.cell)} against each retriever by {title}; {what}, in percent.",
        [(name,) for name in header],
        "r" * len(first) + "lrrr" + ("rr" if frequency else "r") + "l",
        [lines],
    )


LABELS_TITLE = "Labels most helped and most hurt"
NO_TRAINING_TEXTS = (
    "Which labels have no training text is not known here: the inputs do not say which texts trained the retrievers "
    "(a table of folds with roles would)."
)


def label_tables(dataset: DatasetReport) -> Iterator[tuple[str, Table]]:
    """One table per label group and retriever, with a title: the labels helped, then those hurt. All labels come first,
    and the best retriever."""
    standings = dataset.recommendation.standings if dataset.recommendation else ()
    better = {(one.aspect.label_group, one.better_single) for one in standings}
    ordered = sorted(
        dataset.labels,
        key=lambda one: (
            -group_order(one.label_group),
            one.label_group,
            (one.label_group, one.retriever) not in better,
            one.retriever,
        ),
    )
    for (group, retriever), changes in groupby(ordered, key=lambda one: (one.label_group, one.retriever)):
        of_table = list(changes)
        first = of_table[0]
        sides = f"found by {cell_name(first.cell)}", f"by {retriever} alone"
        yield (
            f"{group} labels, against {retriever} alone",
            Table(
                f"labels-{group}-{retriever}",
                f"{dataset.name}, {group} labels: {cell_name(first.cell)} against {retriever} alone; relevant pairs of "
                f"text and label found in the first {first.k}.{_bound(of_table)}",
                [(name,) for name in ("outcome", "label", "pairs", *sides, "change, in pairs")],
                "llrrrr",
                [
                    [_line(change) for change in of_outcome]
                    for _, of_outcome in groupby(of_table, key=lambda one: one.outcome)
                ],
            ),
        )


def _line(change: LabelChange) -> list[Entry]:
    moved = change.found - change.retriever_found
    label = f"{change.name} ({change.label_id})" if change.name else change.label_id
    hits = [f"{count(number)} ({percent(number / change.pairs)}%)" for number in (change.found, change.retriever_found)]
    words = [change.outcome, label, count(change.pairs), *hits, f"{moved:+,}".replace("-", MINUS)]
    return [Entry(word) for word in words]


def _bound(changes: list[LabelChange]) -> str:
    """Among which labels these were chosen, where another label could belong to them."""
    smallest = min(abs(change.found - change.retriever_found) for change in changes)
    if changes[0].most_unwatched <= smallest:
        return ""
    return (
        f" Chosen among the {count(changes[0].watched)} most frequent labels; every other one has "
        f"{count(changes[0].most_unwatched)} pairs or fewer."
    )


def unseen_lines(dataset: DatasetReport) -> list[str]:
    """A line per label group: the pairs whose label has no training text, and who finds them all the same."""
    recommendation = dataset.recommendation
    if recommendation is None or not dataset.bands:
        return []
    if dataset.unseen is None:
        return [NO_TRAINING_TEXTS]
    if not dataset.unseen:
        return ["Every label of a test text has a training text in its fold."]
    return [line for standing in recommendation.standings for line in _unseen_line(dataset, standing)]


def _unseen_line(dataset: DatasetReport, standing: Standing) -> Iterator[str]:
    group = standing.aspect.label_group
    band = (dataset.unseen or {}).get(group)
    if band is None:
        return
    pairs = band.pairs + sum(other.pairs for other in dataset.bands.get(group, ()))
    cells = [*(Cell(SINGLE, name) for name in standing.singles), standing.cell]
    deepest = max(next(iter(band.found.values())))
    shares = [f"{cell_name(cell)} {percent(band.found[cell][deepest].value)}%" for cell in cells if cell in band.found]
    yield (
        f"{group} labels: {count(band.pairs)} of {count(pairs)} relevant pairs ({percent(band.pairs / pairs)}%) have a "
        "label without a training text, which only retrievers that read the names of labels can find. Found in the "
        f"first {deepest}: {joined(shares)}."
    )


LOSES = (
    "By label frequency: how many relevant labels of each text either of the two ranks among its "
    "first k, by a sign test over texts, which keeps the labels of a text together. By the number of labels, or "
    "of words, of a text: the metric, by the paired t-test over texts. All are Holm-corrected over the slices. "
    f"Tenths of labels with fewer than {FEWEST_PAIRS} pairs are merged with their neighbour. Numbers of words are "
    "shown if the judgements have them."
)


def safety_line(safety: Safety, name: str) -> str:
    """What a reader should know before deploying: `name` is that of the deployed strategy."""
    texts = "on held-out validation texts"
    if not safety.lost:
        return f"{texts}, {name} loses to the best single retriever in no band of label frequency"
    bands = f"{joined(list(safety.lost))} training texts"
    said = f"{texts}, {name} finds fewer of the labels with {bands} than the best single retriever does"
    if safety.safe is None:
        return f"{said}, and no strategy loses nowhere"
    points_lost = f"{percent(safety.cost, 2)} points of {objective_name(safety.objective)}"
    cost = points_lost if safety.cost > NO_COST else "nothing"
    return f"{said}; losing nowhere costs {cost} there, with {cell_name(safety.safe)} (tune.deploy)"


SHOWN_TEXTS = 5
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
            outcome: tuple(one for one in of_group if one.outcome == outcome and one.place <= SHOWN_TEXTS)
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
