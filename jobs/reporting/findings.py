"""What a report holds about retrievers, single texts and labels: tables read and judged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive_aspect
from fusion.names import parse_subset, split, unquoted
from fusion.statistics.significance import paired_t
from jobs.reporting.judge import corrected, verdict_of
from jobs.reporting.model import Comparison, LabelChange, Recommendation, Verdict, group_order
from jobs.settings.sections import Test


@dataclass(frozen=True)
class Addition:
    """A cell over some retrievers, compared with the same cell without one of them, or with the one that is left."""

    aspect: Aspect
    cell: Cell
    """Not fixed to retrievers: these are `retriever` and `others`."""
    retriever: str
    others: tuple[str, ...]
    value: float
    without: float
    comparison: Comparison


@dataclass(frozen=True)
class Contribution:
    """What a retriever adds in an aspect: to most others that it was added to, and to every subset of them."""

    to_most: Addition
    verdict: Verdict
    to_each: tuple[Addition, ...]

    @property
    def least(self) -> Addition:
        return min(self.to_each, key=lambda addition: addition.comparison.difference)

    @property
    def most(self) -> Addition:
        return max(self.to_each, key=lambda addition: addition.comparison.difference)


class ExampleLabel(NamedTuple):
    """A label in a list of an example; a relevant label that no list holds has no score."""

    label_id: str
    name: str
    """Empty where it is not known."""
    score: float | None
    relevant: bool


class ExampleList(NamedTuple):
    """The beginning of a list, best first."""

    name: str
    labels: tuple[ExampleLabel, ...]


@dataclass(frozen=True)
class Example:
    """A text that the recommended cell helps or hurts against the best single retriever."""

    aspect: Aspect
    outcome: str
    place: int
    text_id: str
    excerpt: str
    """Empty where the results do not hold it."""
    cell: Cell
    retriever: str
    value: float
    retriever_value: float
    """The figures of the text, as shares of 1."""
    lists: tuple[ExampleList, ...]
    """The fused list, those of the retrievers, and the relevant labels."""


def read_additions(
    rows: Iterable[Mapping[str, Any]],
    folds: Mapping[Aspect, Mapping[Cell, Mapping[int, float]]],
    recommended: Recommendation | None,
    test: Test,
    alpha: float,
) -> tuple[Contribution, ...]:
    """The rows of the table `additions`, for one cell and the decisive aspect of each label group. `folds`: the figures
    of every cell, fold by fold."""
    by_aspect: dict[Aspect, list[Addition]] = defaultdict(list)
    for row in rows:
        by_aspect[Aspect(row["label_group"], row["metric"], row["k"])].append(_addition(row))
    contributions: list[Contribution] = []
    for group in sorted(
        {aspect.label_group for aspect in by_aspect}, key=lambda name: (name != ALL, group_order(name))
    ):
        aspect = decisive_aspect(aspect for aspect in by_aspect if aspect.label_group == group)
        cell = _shown_cell(by_aspect[aspect], recommended)
        of_cell = [addition for addition in by_aspect[aspect] if addition.cell == cell]
        contributions += _contributions(of_cell, folds.get(aspect, {}), test, alpha)
    return tuple(contributions)


def _addition(row: Mapping[str, Any]) -> Addition:
    retrievers = [unquoted(row["others"])] if len(split(row["others"], "+")) == 1 else parse_subset(row["others"])
    tests = {"p_queries": row["p"], "p_randomization": row["p_randomization"], "texts": row["queries"]}
    return Addition(
        aspect=Aspect(row["label_group"], row["metric"], row["k"]),
        cell=Cell(row["normalization"], row["fusion"]),
        retriever=row["retriever"],
        others=tuple(retrievers),
        value=row["value"],
        without=row["others_value"],
        comparison=Comparison(row["difference"], row["low"], row["high"], **tests),
    )


def _shown_cell(additions: Sequence[Addition], recommended: Recommendation | None) -> Cell:
    """The recommended cell if it was looked at over several subsets, or else the best over the most retrievers."""
    cells = {addition.cell for addition in additions}
    if recommended is not None:
        plain = Cell(recommended.cell.scaling, recommended.cell.fusion)
        if plain in cells:
            return plain
    return max(additions, key=lambda addition: (len(addition.others), addition.value)).cell


def _contributions(
    additions: Sequence[Addition], folds: Mapping[Cell, Mapping[int, float]], test: Test, alpha: float
) -> list[Contribution]:
    """One per retriever, tested where it is added to the most others; Holm-corrected over the retrievers."""
    by_retriever: dict[str, list[Addition]] = defaultdict(list)
    for addition in additions:
        by_retriever[addition.retriever].append(addition)
    to_most = {name: max(mine, key=lambda one: len(one.others)) for name, mine in by_retriever.items()}
    compared = corrected({name: one.comparison for name, one in to_most.items()})
    contributions = []
    for name, addition in to_most.items():
        differences = _by_fold(addition, folds)
        comparison = replace(compared[name], p_folds=paired_t(differences).p if len(differences) > 1 else None)
        verdict = verdict_of(comparison, max(len(differences), 1), test, alpha)
        contributions.append(Contribution(replace(addition, comparison=comparison), verdict, tuple(by_retriever[name])))
    return contributions


def _by_fold(addition: Addition, folds: Mapping[Cell, Mapping[int, float]]) -> list[float]:
    """The difference in every fold."""
    every = (*addition.others, addition.retriever)
    alone = Cell(SINGLE, addition.others[0])
    without = alone if len(addition.others) == 1 else addition.cell.within(addition.others)
    fixed = addition.cell.within(every)
    of_cell, of_others = folds.get(fixed, folds.get(addition.cell, {})), folds.get(without, {})
    return [of_cell[fold] - of_others[fold] for fold in of_cell if fold in of_others]


def read_examples(rows: Iterable[Mapping[str, Any]]) -> tuple[Example, ...]:
    """The rows of the table `examples`, list by list, as texts."""
    lists: dict[tuple[str, str, int], list[ExampleList]] = {}
    texts: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for row in rows:
        key = row["label_group"], row["outcome"], row["place"]
        names = row["label_names"] or [""] * len(row["label_ids"])
        labels = zip(row["label_ids"], names, row["scores"], row["relevant"], strict=True)
        texts[key] = row
        lists.setdefault(key, []).append(ExampleList(row["list"], tuple(ExampleLabel(*label) for label in labels)))
    return tuple(
        Example(
            aspect=Aspect(row["label_group"], row["metric"], row["k"]),
            outcome=row["outcome"],
            place=row["place"],
            text_id=row["text_id"],
            excerpt=row["excerpt"],
            cell=Cell(row["normalization"], row["fusion"]),
            retriever=row["retriever"],
            value=row["value"],
            retriever_value=row["retriever_value"],
            lists=tuple(lists[key]),
        )
        for key, row in texts.items()
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
