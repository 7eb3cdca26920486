"""A result judged: every figure with its tests, next to the paper's."""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive_aspect
from fusion.registry import FUSIONS
from fusion.statistics.significance import best_of, holm, mean_std, paired_t, winners
from jobs.evaluation.result import Folds, Result
from jobs.reporting.formats import shown_cell
from jobs.reporting.model import (
    Agreement,
    Comparison,
    Evidence,
    Gain,
    Outcome,
    PaperFigures,
    Value,
    Verdict,
)
from jobs.settings.config import conf_file
from jobs.settings.sections import Test

LEFT_OUT = (
    "Condorcet, and the Borda normalisation with methods that read ranks: there the paper's figures depend on the "
    "order in which a hash table was read"
)


def paper_figures(table: str, ours: Mapping[Aspect, Mapping[Cell, float]]) -> PaperFigures | None:
    """The paper's table of that name (in any case), and how far the order of its cells agrees with ours."""
    values: dict[tuple[Cell, Aspect], tuple[float, float]] = {}
    with conf_file("paper/results.csv").open(encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if row["dataset"].lower() == table.lower():
                cell = Cell(row["normalization"].lower(), row["fusion"].lower().replace("_", "-"))
                aspect = Aspect(row["label_group"], row["metric"], int(row["k"]))
                values[cell, aspect] = float(row["mean"]) / 100, float(row["std"]) / 100
    if not values:
        return None
    # Half a second to import, which every other report would wait for.
    from scipy.stats import spearmanr

    compared = [cell for cell in dict.fromkeys(cell for cell, _ in values) if sound(cell)]
    correlation = {}
    for aspect in dict.fromkeys(aspect for _, aspect in values):
        both = [cell for cell in compared if cell in ours.get(aspect, {})]
        if len(both) > 2:
            agreement = spearmanr([ours[aspect][cell] for cell in both], [values[cell, aspect][0] for cell in both])
            correlation[aspect] = float(agreement.statistic)
    return PaperFigures(table, values, correlation, len(compared), LEFT_OUT)


def sound(cell: Cell) -> bool:
    """Whether the paper's figure for a cell can be right."""
    return cell.fusion != "condorcet" and not (cell.normalization == "borda" and FUSIONS[cell.fusion].reads == "ranks")


Key = TypeVar("Key", bound=Hashable)
Values = Mapping[Aspect, Mapping[Cell, Value]]
Pairs = Mapping[Aspect, Mapping[tuple[Cell, Cell], Comparison]]
ByTexts = Mapping[tuple[Aspect, Cell, Cell], dict[str, Any]]
"""Comparisons text by text: of a cell against another in an aspect."""


class Judged(NamedTuple):
    """The figures of all cells by aspect, and how the fused ones compare with the best single retriever."""

    values: dict[Aspect, dict[Cell, Value]]
    against_single: dict[Aspect, dict[Cell, Comparison]]
    gains: list[Gain]


def judged(result: Result, test: Test, alpha: float) -> Judged:
    """Every figure with its tests."""
    by_texts = _by_texts(result)
    values: dict[Aspect, dict[Cell, Value]] = {}
    against_single: dict[Aspect, dict[Cell, Comparison]] = {}
    gains = []
    for aspect, cells in result.figures.items():
        means = {cell: mean_std(list(folds.values())).mean for cell, folds in cells.items()}
        fused = {cell: mean for cell, mean in means.items() if cell.normalization != SINGLE}
        best = best_of(fused)
        values[aspect] = _values(aspect, cells, best, by_texts, test, alpha)
        singles = {cell: mean for cell, mean in means.items() if cell.normalization == SINGLE}
        if singles:
            # The best of many cells is best by luck, too: it is tested as one of them.
            single = best_of(singles)
            against = corrected({cell: _compared(aspect, cells, cell, single, by_texts) for cell in fused}, shown_cell)
            against_single[aspect] = against
            verdict = verdict_of(against[best], len(cells[best]), test, alpha)
            alone = {cell.fusion: values[aspect][cell] for cell in singles}
            gains.append(
                Gain(
                    aspect=aspect,
                    singles=alone,
                    better_single=single.fusion,
                    best=best,
                    best_value=values[aspect][best],
                    comparison=against[best],
                    verdict=verdict,
                )
            )
    return Judged(values, against_single, gains)


def deciding_test(test: Test, folds: int) -> Test:
    """One fold is not a sample of folds: there the texts decide, whichever test was asked for."""
    return "queries" if folds == 1 and test == "folds" else test


def _by_texts(result: Result) -> ByTexts:
    return {
        (
            Aspect(row["label_group"], row["metric"], row["k"], row["ideal"]),
            Cell(row["normalization"], row["fusion"]),
            Cell(row["against_normalization"], row["against_fusion"]),
        ): row
        for row in result.rows("comparisons")
    }


def _values(
    aspect: Aspect, cells: Mapping[Cell, Folds], best: Cell, by_texts: ByTexts, test: Test, alpha: float
) -> dict[Cell, Value]:
    against = {cell: _compared(aspect, cells, cell, best, by_texts) for cell in cells if cell != best}
    # A fusion that reads ranks is one hypothesis, not one per normalisation.
    against |= corrected({cell: c for cell, c in against.items() if cell.normalization != SINGLE}, shown_cell)
    bold = winners({cell: c.p(test) for cell, c in against.items() if cell.normalization != SINGLE}, best, alpha)
    values = {}
    for cell, folds in cells.items():
        mean, std = mean_std(list(folds.values()))
        deviation = std if len(folds) > 1 else None
        values[cell] = Value(mean, deviation, dict(folds), cell == best, cell in bold, against.get(cell))
    return values


def _compared(aspect: Aspect, cells: Mapping[Cell, Folds], cell: Cell, other: Cell, by_texts: ByTexts) -> Comparison:
    """A cell against another: over the folds that both have, and over texts where those were compared."""
    shared = [fold for fold in cells[cell] if fold in cells[other]]
    differences = [cells[cell][fold] - cells[other][fold] for fold in shared]
    p_folds = paired_t(differences).p if len(shared) > 1 else None
    row = by_texts.get((aspect, cell, other))
    if row is None:
        return Comparison(sum(differences) / len(shared) if shared else float("nan"), p_folds=p_folds)
    tests = p_folds, row["p"], row["p_randomization"]
    return Comparison(row["difference"], row["low"], row["high"], row["effect"], *tests, row["queries"])


def corrected(
    compared: Mapping[Key, Comparison], alike: Callable[[Key], object] = lambda key: key
) -> dict[Key, Comparison]:
    """Holm's correction of the tests over texts, for comparisons that are made together; those of which `alike` is the
    same are one hypothesis."""

    def of(test: Test) -> dict[object, float]:
        made = {alike(key): each.p(test) for key, each in compared.items()}
        return holm({key: p for key, p in made.items() if p is not None})

    queries, signs = of("queries"), of("randomization")
    return {
        key: replace(each, p_queries=queries.get(alike(key)), p_randomization=signs.get(alike(key)))
        for key, each in compared.items()
    }


def verdict_of(comparison: Comparison, folds: int, test: Test, alpha: float) -> Verdict:
    """Folds alone are too few to trust: the texts must say the same. One fold leaves the texts alone to decide. Where
    only some tests find a difference, or only the 95% interval that a reader sees, the verdict says that."""
    tests: tuple[Test, ...] = ("folds", "queries") if folds > 1 else (test,)
    higher = comparison.difference > 0
    finds: dict[Evidence, bool] = {}
    for each in tests:
        p = comparison.p(each)
        if p is None:
            return Verdict("not tested", folds, comparison.texts, higher)
        finds[each] = p < alpha
    if all(finds.values()):
        return Verdict("better" if higher else "worse", folds, comparison.texts, higher)
    low, high = comparison.low, comparison.high
    finds["interval"] = low is not None and high is not None and (low > 0 or high < 0)
    found_by, missed_by = (tuple(test for test, found in finds.items() if found is wanted) for wanted in (True, False))
    outcome: Outcome = "tests disagree" if found_by else "not significantly different"
    return Verdict(outcome, folds, comparison.texts, higher, found_by, missed_by)


def compared_pairs(result: Result) -> Pairs:
    """Any two distinct results in the aspects that a page shows; cells that share one stand under the first of them."""
    comparisons: dict[Aspect, dict[tuple[Cell, Cell], Comparison]] = {
        aspect: {} for aspect in compared_aspects(result.figures)
    }
    for row in result.rows("pairs"):
        aspect = Aspect(row["label_group"], row["metric"], row["k"], row["ideal"])
        one, other = (
            Cell(row["normalization"], row["fusion"]),
            Cell(row["against_normalization"], row["against_fusion"]),
        )
        if aspect in comparisons:
            effect = row["difference"] / row["deviation"] if row["deviation"] else None
            of_folds = _compared(aspect, result.figures[aspect], one, other, {}).p_folds
            tests = of_folds, row["p"], row["p_randomization"]
            moved = row["difference"], row["low"], row["high"], effect
            comparisons[aspect][one, other] = Comparison(*moved, *tests, row["queries"])
    return {aspect: pairs for aspect, pairs in comparisons.items() if pairs}


def compared_aspects(aspects: Iterable[Aspect]) -> list[Aspect]:
    """Of each label group the decisive metric and the first precision, by the paper's protocol."""
    shown = []
    of_protocol = [aspect for aspect in aspects if aspect.ideal == ALL]
    for group in dict.fromkeys(aspect.label_group for aspect in of_protocol):
        of_group = [aspect for aspect in of_protocol if aspect.label_group == group]
        precisions = sorted((aspect for aspect in of_group if aspect.metric == "precision"), key=lambda one: one.k)
        shown += list(dict.fromkeys([decisive_aspect(of_group), *precisions[:1]]))
    return shown


def agreement_of(result: Result) -> tuple[Agreement, ...]:
    groups: dict[str, Agreement] = {}
    for row in result.rows("agreement"):
        group, quantity, value = row["label_group"], row["quantity"], row["value"]
        here = groups.setdefault(
            group, Agreement(label_group=group, candidates={}, overlap={}, found={}, alone={}, union=0.0, ceiling={})
        )
        if quantity == "overlap":
            here.overlap[row["retriever"], row["other"]] = value
        elif quantity == "union":
            groups[group] = Agreement(
                label_group=group,
                candidates=here.candidates,
                overlap=here.overlap,
                found=here.found,
                alone=here.alone,
                union=value,
                ceiling=here.ceiling,
            )
        elif quantity == "ceiling":
            here.ceiling[Aspect(group, row["metric"], row["k"], row["ideal"])] = value
        else:
            getattr(here, quantity)[row["retriever"]] = value
    return tuple(groups.values())
