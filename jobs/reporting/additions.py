"""What each retriever adds to the others: the recommended cell with it and without it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.names import parse_subset, split, unquoted
from fusion.statistics.significance import holm, paired_t
from jobs.reporting.dataset import Dataset
from jobs.reporting.findings import Addition, Contribution
from jobs.reporting.formats import cell_name, joined, measure_name, p_value, percent, points, verdict
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import Aspect, Comparison, Recommendation
from jobs.reporting.recommend import verdict_of
from jobs.reporting.tables import Entry, Table, decisive, group_order
from jobs.settings.sections import Test

ADDITIONS_TITLE = "What each retriever adds to the others"


def read_additions(
    rows: Iterable[Mapping[str, Any]],
    folds: Mapping[Aspect, Mapping[Cell, Mapping[int, float]]],
    recommended: Recommendation | None,
    test: Test,
    alpha: float,
) -> tuple[Contribution, ...]:
    """The rows of the table `additions`, for one cell and the decisive aspect of each label group. `folds`: the figures
    of every cell, fold by fold."""
    found: dict[Aspect, list[Addition]] = defaultdict(list)
    for row in rows:
        found[Aspect(row["label_group"], row["metric"], row["k"])].append(_addition(row))
    contributions: list[Contribution] = []
    for group in sorted({aspect.label_group for aspect in found}, key=lambda name: (name != ALL, group_order(name))):
        aspect = decisive(aspect for aspect in found if aspect.label_group == group)
        cell = _shown_cell(found[aspect], recommended)
        of_cell = [addition for addition in found[aspect] if addition.cell == cell]
        contributions += _contributions(of_cell, folds.get(aspect, {}), test, alpha)
    return tuple(contributions)


def _addition(row: Mapping[str, Any]) -> Addition:
    others = [unquoted(row["others"])] if len(split(row["others"], "+")) == 1 else parse_subset(row["others"])
    tests = {"p_queries": row["p"], "p_randomization": row["p_randomization"], "texts": row["queries"]}
    return Addition(
        Aspect(row["label_group"], row["metric"], row["k"]),
        Cell(row["normalization"], row["fusion"]),
        row["retriever"],
        tuple(others),
        row["value"],
        row["others_value"],
        Comparison(row["difference"], row["low"], row["high"], **tests),
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
    queries = holm(_given({name: one.comparison.p_queries for name, one in to_most.items()}))
    signs = holm(_given({name: one.comparison.p_randomization for name, one in to_most.items()}))
    found = []
    for name, addition in to_most.items():
        differences = _by_fold(addition, folds)
        compared = replace(
            addition.comparison,
            p_folds=paired_t(differences).p if len(differences) > 1 else None,
            p_queries=queries.get(name),
            p_randomization=signs.get(name),
        )
        judged = verdict_of(compared, max(len(differences), 1), test, alpha)
        found.append(Contribution(replace(addition, comparison=compared), judged, tuple(by_retriever[name])))
    return found


def _given(ps: Mapping[str, float | None]) -> dict[str, float]:
    return {name: p for name, p in ps.items() if p is not None}


def _by_fold(addition: Addition, folds: Mapping[Cell, Mapping[int, float]]) -> list[float]:
    """The difference in every fold."""
    every = (*addition.others, addition.retriever)
    alone = Cell(SINGLE, addition.others[0])
    without = alone if len(addition.others) == 1 else addition.cell.within(addition.others)
    fixed = addition.cell.within(every)
    of_cell, of_others = folds.get(fixed, folds.get(addition.cell, {})), folds.get(without, {})
    return [of_cell[fold] - of_others[fold] for fold in of_cell if fold in of_others]


def additions_table(dataset: Dataset) -> Table:
    """One line per label group and retriever."""
    blocks: list[list[list[Entry]]] = []
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        lines = []
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        names = [one.to_most.retriever for one in mine]
        for one in mine:
            aspect, added = one.to_most.aspect, one.to_most.comparison
            words = [group, measure_name(aspect), one.to_most.retriever, _others(one.to_most, names)]
            words += [percent(one.to_most.without), percent(one.to_most.value), gained(added)]
            words += [p_value(added.p_folds), p_value(added.p_queries), verdict(one.verdict)]
            words += [_extreme(one.least, names), _extreme(one.most, names)]
            lines.append([*map(Entry, words)])
        blocks.append(lines)
    heads = ("labels", "measure", "retriever", "added to", "without it", "with it", "adds", "p folds", "p texts")
    cells = dict.fromkeys(cell_name(one.to_most.cell) for one in dataset.additions)
    return Table(
        "additions",
        f"{dataset.name}. {joined(list(cells))} over all retrievers beside the same without one of them, in percent; "
        "what the one adds, in points, with its 95% interval over the texts. p is Holm-corrected over the retrievers. "
        "Least and most: over every subset of the others that was evaluated.",
        [(name,) for name in (*heads, "verdict", "least, added to", "most, added to")],
        "llllrrrrrlll",
        blocks,
    )


def _others(addition: Addition, retrievers: Sequence[str]) -> str:
    """Those that it was added to, of all retrievers; where that is shorter, those that are left out."""
    names = list(addition.others)
    left_out = [name for name in retrievers if name != addition.retriever and name not in names]
    if len(names) <= max(2, len(left_out)):
        return joined(names)
    return f"all others but {joined(left_out)}" if left_out else f"all {len(names)} others"


def _extreme(addition: Addition, retrievers: Sequence[str]) -> str:
    return f"{points(addition.comparison.difference)}, {_others(addition, retrievers)}"


def addition_lines(dataset: Dataset) -> list[str]:
    """A sentence per label group."""
    lines = []
    for group in dict.fromkeys(one.to_most.aspect.label_group for one in dataset.additions):
        mine = [one for one in dataset.additions if one.to_most.aspect.label_group == group]
        told = "; ".join(
            f"{one.to_most.retriever} adds {gained(one.to_most.comparison)} ({one.verdict.outcome})" for one in mine
        )
        first = mine[0].to_most
        lines.append(f"{group} labels, {measure_name(first.aspect)} of {cell_name(first.cell)}, to all others: {told}.")
    return lines
