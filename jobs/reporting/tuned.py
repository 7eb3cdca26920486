"""What `tune` adds to a report: strategies with their choices, figures and tests."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fusion.cells import SINGLE, Cell
from fusion.metrics import Aspect, decisive_aspect
from fusion.models.strategies import CELL
from fusion.statistics.significance import best_of
from jobs.reporting.judge import Pairs, Values, corrected, verdict_of
from jobs.reporting.model import Comparison, Value, Verdict, group_order
from jobs.settings.sections import Test

OVERALL = -1
"""The fold of what was chosen over all folds, which is what the model file holds."""


@dataclass(frozen=True)
class Tested:
    """A strategy against another cell, over all test texts; p-values are Holm-corrected over the label group."""

    cell: Cell
    against: Cell
    comparison: Comparison
    verdict: Verdict


@dataclass(frozen=True)
class Strategy:
    """What a strategy chose for a label group, and its figures on the test texts."""

    cell: Cell
    choice: str
    """Over all folds."""
    alike: int
    """Folds that chose the same."""
    folds: int
    values: dict[Aspect, Value]


@dataclass(frozen=True)
class Optimism:
    """The objective of the fixed cell that is best on the test texts, next to that of the one that the validation texts
    chose: what the first promises too much."""

    best: str
    best_value: float
    chosen_value: float
    validation_value: float
    """Of the chosen cells, on the texts that they were chosen on."""
    texts: int
    """Validation texts per fold, on average."""


class CurvePoint(NamedTuple):
    """A strategy's gain over the fixed cell that was chosen on all validation texts, by the number of these texts: the
    mean over the folds, and their ends."""

    texts: int
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupStrategies:
    """Everything that was chosen and learned for a label group."""

    label_group: str
    objective: str
    aspects: tuple[Aspect, ...]
    """The decisive one first; the tests are made in that one."""
    single: Cell | None
    """The best retriever alone, by the decisive aspect."""
    single_values: dict[Aspect, Value]
    strategies: tuple[Strategy, ...]
    tests: tuple[Tested, ...]
    optimism: Optimism | None
    curve: dict[Cell, tuple[CurvePoint, ...]]

    def test(self, cell: Cell, against: Cell | None) -> Tested | None:
        """How a strategy stands against another cell."""
        return next((test for test in self.tests if (test.cell, test.against) == (cell, against)), None)


def read_strategies(
    choices: Sequence[Mapping[str, Any]],
    curve: Sequence[Mapping[str, Any]],
    values: Values,
    pairs: Pairs,
    test: Test,
    alpha: float,
) -> tuple[GroupStrategies, ...]:
    """By label group, from the rows of the tables `choices` and `learning_curve`."""
    groups = sorted({row["label_group"] for row in choices}, key=group_order)
    of_group = {group: [row for row in choices if row["label_group"] == group] for group in groups}
    points = {group: [row for row in curve if row["label_group"] == group] for group in groups}
    return tuple(_group(group, of_group[group], points[group], values, pairs, test, alpha) for group in groups)


def _cell(strategy: str) -> Cell:
    normalization, _, fusion = strategy.partition("+")
    return Cell(normalization, fusion)


def _group(
    group: str,
    choices: Sequence[Mapping[str, Any]],
    curve: Sequence[Mapping[str, Any]],
    values: Values,
    pairs: Pairs,
    test: Test,
    alpha: float,
) -> GroupStrategies:
    aspects = _aspects([aspect for aspect in values if aspect.label_group == group and aspect.ideal == "all"])
    cells = list(dict.fromkeys(_cell(row["strategy"]) for row in choices))
    strategies = tuple(
        _strategy(cell, [row for row in choices if _cell(row["strategy"]) == cell], aspects, values) for cell in cells
    )
    first = values[aspects[0]] if aspects else {}
    singles = {cell: value.mean for cell, value in first.items() if cell.normalization == SINGLE}
    single = best_of(singles) if singles else None
    tests = (
        _tests([cell for cell in cells if cell in first], single, aspects[0], values, pairs, test, alpha)
        if aspects
        else ()
    )
    return GroupStrategies(
        label_group=group,
        objective=str(choices[0]["objective"]),
        aspects=aspects,
        single=single,
        single_values={aspect: values[aspect][single] for aspect in aspects if single in values[aspect]}
        if single
        else {},
        strategies=strategies,
        tests=tests,
        optimism=_optimism(choices),
        curve=_curve(curve),
    )


def _aspects(of_group: Sequence[Aspect]) -> tuple[Aspect, ...]:
    """The decisive aspect, and that of the first place."""
    if not of_group:
        return ()
    precisions = sorted((aspect for aspect in of_group if aspect.metric == "precision"), key=lambda aspect: aspect.k)
    return tuple(dict.fromkeys([decisive_aspect(of_group), *precisions[:1]]))


def _strategy(cell: Cell, rows: Sequence[Mapping[str, Any]], aspects: Sequence[Aspect], values: Values) -> Strategy:
    by_fold = {row["fold"]: str(row["choice"]) for row in rows}
    overall = by_fold.pop(OVERALL, next(iter(by_fold.values()), ""))
    alike = sum(choice == overall for choice in by_fold.values())
    return Strategy(
        cell,
        overall,
        alike,
        len(by_fold),
        {aspect: values[aspect][cell] for aspect in aspects if cell in values[aspect]},
    )


def _tests(
    cells: Sequence[Cell],
    single: Cell | None,
    aspect: Aspect,
    values: Values,
    pairs: Pairs,
    test: Test,
    alpha: float,
) -> tuple[Tested, ...]:
    """Every two strategies, and each against the best retriever."""
    tested_pairs = [(cell, other) for i, cell in enumerate(cells) for other in cells[:i]]
    tested_pairs += [(cell, single) for cell in cells] if single else []
    comparisons = {
        pair: compared for pair in tested_pairs if (compared := _between(pairs.get(aspect, {}), *pair)) is not None
    }
    folds = {cell: len(value.folds) for cell, value in values[aspect].items()}
    return tuple(
        Tested(*pair, compared, verdict_of(compared, folds[pair[0]], test, alpha))
        for pair, compared in corrected(comparisons).items()
    )


def _between(pairs: Mapping[tuple[Cell, Cell], Comparison], one: Cell, other: Cell) -> Comparison | None:
    """One cell less another; the pair may stand there the other way round. Results that are the same in every text are
    not significantly different by any test."""
    comparison = pairs.get((one, other))
    if comparison is None and (other, one) in pairs:
        comparison = _reversed(pairs[other, one])
    if comparison is None:
        return None
    folds, queries, signs = (
        1.0 if p is not None and math.isnan(p) else p
        for p in (comparison.p_folds, comparison.p_queries, comparison.p_randomization)
    )
    return replace(comparison, p_folds=folds, p_queries=queries, p_randomization=signs)


def _reversed(comparison: Comparison) -> Comparison:
    low, high, effect = (None if end is None else -end for end in (comparison.high, comparison.low, comparison.effect))
    return replace(comparison, difference=-comparison.difference, low=low, high=high, effect=effect)


def _optimism(choices: Sequence[Mapping[str, Any]]) -> Optimism | None:
    rows = [row for row in choices if _cell(row["strategy"]) == CELL]
    folds = [row for row in rows if row["fold"] != OVERALL and row["test_value"] is not None]
    overall = next((row for row in rows if row["fold"] == OVERALL and row["best_test_value"] is not None), None)
    if not folds or overall is None:
        return None
    mean = {name: sum(row[name] or 0.0 for row in folds) / len(folds) for name in ("test_value", "validation_value")}
    texts = round(sum(row["validation_texts"] for row in folds) / len(folds))
    best = str(overall["best_test_choice"]), float(overall["best_test_value"])
    return Optimism(*best, mean["test_value"], mean["validation_value"], texts)


def _curve(rows: Sequence[Mapping[str, Any]]) -> dict[Cell, tuple[CurvePoint, ...]]:
    """A fold's last point is that of all its validation texts, of which folds have different numbers: points belong
    together by their order."""
    gains: dict[Cell, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        if row["baseline"] is not None:
            gains[_cell(row["strategy"])][row["fold"]][row["texts"]] = row["value"] - row["baseline"]
    curves = {}
    for cell, by_fold in gains.items():
        together = zip(*(sorted(points.items()) for points in by_fold.values()), strict=False)
        curves[cell] = tuple(map(_point, together))
    return curves


def _point(of_folds: Sequence[tuple[int, float]]) -> CurvePoint:
    texts, gains = zip(*of_folds, strict=True)
    return CurvePoint(round(sum(texts) / len(texts)), sum(gains) / len(gains), min(gains), max(gains))
