"""What each retriever adds to the others: the recommended cell with it and without it."""

from __future__ import annotations

from collections.abc import Sequence

from jobs.reporting.dataset import DatasetReport
from jobs.reporting.findings import Addition
from jobs.reporting.formats import cell_name, joined, measure_name, p_value, percent, points, verdict
from jobs.reporting.formats import gain as gained
from jobs.reporting.tables import Entry, Table

ADDITIONS_TITLE = "What each retriever adds to the others"


def additions_table(dataset: DatasetReport) -> Table:
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


def addition_lines(dataset: DatasetReport) -> list[str]:
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
