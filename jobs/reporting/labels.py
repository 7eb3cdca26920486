"""The labels most helped and most hurt by the recommended fusion, and those that no training text carries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from fusion.grid import SINGLE, Cell
from jobs.reporting.data import Dataset, LabelChange, Standing
from jobs.reporting.formats import MINUS, cell_name, count, joined, percent
from jobs.reporting.tables import Entry, Table, group_order

TITLE = "Labels most helped and most hurt"
NO_TRAINING_TEXTS = (
    "Which labels have no training text is not known here: the inputs do not say which texts trained the retrievers "
    "(a table of folds with roles would)."
)


def read_labels(rows: Iterable[Mapping[str, Any]]) -> tuple[LabelChange, ...]:
    """The rows of the table `labels`."""
    names = ("outcome", "label_id", "name", "pairs", "k", "found", "retriever_found", "watched", "most_unwatched")
    return tuple(
        LabelChange(
            row["label_group"],
            Cell(row["normalization"], row["fusion"]),
            row["retriever"],
            *(row[name] for name in names),
        )
        for row in rows
    )


def label_tables(dataset: Dataset) -> Iterator[tuple[str, Table]]:
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


def unseen_lines(dataset: Dataset) -> list[str]:
    """A line per label group: the pairs whose label has no training text, and who finds them all the same."""
    recommendation = dataset.recommendation
    if recommendation is None or not dataset.bands:
        return []
    if dataset.unseen is None:
        return [NO_TRAINING_TEXTS]
    if not dataset.unseen:
        return ["Every label of a test text has a training text in its fold."]
    return [line for standing in recommendation.standings for line in _unseen_line(dataset, standing)]


def _unseen_line(dataset: Dataset, standing: Standing) -> Iterator[str]:
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
        "label without a training text, which no retriever over training texts can return. Found in the first "
        f"{deepest}: {joined(shares)}."
    )
