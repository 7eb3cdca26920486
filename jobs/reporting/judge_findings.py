"""What `tune`, subsets of the retrievers, single texts and labels add to a report: tables read and judged."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive_aspect
from fusion.models.strategies import CELL
from fusion.names import parse_subset, split, unquoted
from fusion.statistics.significance import best_of, paired_t
from jobs.reporting.findings import (
    Addition,
    Contribution,
    CurvePoint,
    Example,
    ExampleLabel,
    ExampleList,
    GroupStrategies,
    Optimism,
    Strategy,
    Tested,
)
from jobs.reporting.judge import Pairs, Values, corrected, verdict_of
from jobs.reporting.model import Comparison, LabelChange, Recommendation, group_order
from jobs.settings.sections import Test

OVERALL = -1
"""The fold of what was chosen over all folds, which is what the model file holds."""


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
