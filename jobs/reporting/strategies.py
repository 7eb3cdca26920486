"""Fixed, tuned and learned fusions compared."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusion.cells import LEARNED, SINGLE, Cell
from fusion.models.strategies import CELL
from fusion.statistics.significance import best_of, holm
from jobs.reporting.dataset import Dataset
from jobs.reporting.findings import CurvePoint, GroupStrategies, Optimism, Strategy, Tested
from jobs.reporting.formats import (
    NOTHING,
    cell_name,
    count,
    figure,
    measure_name,
    objective_name,
    p_value,
    percent,
    points,
    span,
    verdict,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import Aspect, Band, Comparison, Value
from jobs.reporting.recommend import corrected_band_p, verdict_of
from jobs.reporting.tables import Entry, Table, decisive, group_order
from jobs.settings.sections import Test

OVERALL = -1
"""The fold of what was chosen over all folds, which is what the model file holds."""

Values = Mapping[Aspect, Mapping[Cell, Value]]
Pairs = Mapping[Aspect, Mapping[tuple[Cell, Cell], Comparison]]


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
        group,
        str(choices[0]["objective"]),
        aspects,
        single,
        {aspect: values[aspect][single] for aspect in aspects if single in values[aspect]} if single else {},
        strategies,
        tests,
        _optimism(choices),
        _curve(curve),
    )


def _aspects(of_group: Sequence[Aspect]) -> tuple[Aspect, ...]:
    """The decisive aspect, and that of the first place."""
    if not of_group:
        return ()
    precisions = sorted((aspect for aspect in of_group if aspect.metric == "precision"), key=lambda aspect: aspect.k)
    return tuple(dict.fromkeys([decisive(of_group), *precisions[:1]]))


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
    wanted = [(cell, other) for i, cell in enumerate(cells) for other in cells[:i]]
    wanted += [(cell, single) for cell in cells] if single else []
    found = {pair: compared for pair in wanted if (compared := _between(pairs.get(aspect, {}), *pair)) is not None}
    queries = holm({pair: c.p_queries for pair, c in found.items() if c.p_queries is not None})
    signs = holm({pair: c.p_randomization for pair, c in found.items() if c.p_randomization is not None})
    found = {
        pair: replace(compared, p_queries=queries.get(pair), p_randomization=signs.get(pair))
        for pair, compared in found.items()
    }
    folds = {cell: len(value.folds) for cell, value in values[aspect].items()}
    return tuple(
        Tested(*pair, compared, verdict_of(compared, folds[pair[0]], test, alpha)) for pair, compared in found.items()
    )


def _between(pairs: Mapping[tuple[Cell, Cell], Comparison], one: Cell, other: Cell) -> Comparison | None:
    """One cell less another; the pair may stand there the other way round. Results that are the same in every text are
    not told apart by any test."""
    found = pairs.get((one, other))
    if found is None and (other, one) in pairs:
        found = _reversed(pairs[other, one])
    if found is None:
        return None
    folds, queries, signs = (
        1.0 if p is not None and math.isnan(p) else p for p in (found.p_folds, found.p_queries, found.p_randomization)
    )
    return replace(found, p_folds=folds, p_queries=queries, p_randomization=signs)


def _reversed(found: Comparison) -> Comparison:
    low, high, effect = (None if end is None else -end for end in (found.high, found.low, found.effect))
    return replace(found, difference=-found.difference, low=low, high=high, effect=effect)


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


def pays_from(curve: Sequence[CurvePoint]) -> int | None:
    """The validation texts from which on a strategy stays above the chosen cell; None where it never does."""
    above: int | None = None
    for point in reversed(curve):
        if point.mean <= 0:
            break
        above = point.texts
    return above


STRATEGIES_TITLE = "Fixed, tuned, learned"
MEANING = (
    "What is chosen is applied once to the test texts that the figures are over. tuned+cell stays with a fixed cell; "
    "tuned: weights and parameters; learned: a model over the lists."
)
SIGNS = {True: "\N{BLACK UP-POINTING TRIANGLE}", False: "\N{BLACK DOWN-POINTING TRIANGLE}"}


def strategies_meaning(dataset: Dataset) -> str:
    """On which texts choices were made, and what the names of strategies stand for."""
    return " ".join([*(f"{note[:1].upper()}{note[1:]}." for note in dataset.notes), MEANING])


def strategy_table(dataset: Dataset) -> Table:
    """A block per label group: the best retriever, then every strategy."""
    aspects = (aspect for group in dataset.strategies for aspect in group.aspects)
    measures = list(dict.fromkeys(map(measure_name, aspects)))
    blocks = []
    for group in dataset.strategies:
        lines = [_line(group, strategy, measures) for strategy in group.strategies]
        blocks.append([_single_line(group, measures), *lines] if group.single else lines)
    header = ["labels", "strategy", "chosen over all folds", *measures]
    header += ["over tuned+cell", "over the retriever"]
    return Table(
        "strategies",
        f"{dataset.name}. {strategies_meaning(dataset)} In percent; differences in points with their 95% interval over "
        "all test texts. Better, worse: by the tests over folds and over texts, the latter Holm-corrected over the "
        "label group. The retriever: the best one alone. Bold: the highest figure.",
        [(name,) for name in header],
        "lll" + "r" * len(measures) + "rr",
        blocks,
    )


def _single_line(group: GroupStrategies, measures: list[str]) -> list[Entry]:
    assert group.single is not None
    figures = _figures(group.single_values, measures, group)
    return [Entry(group.label_group), Entry(cell_name(group.single)), Entry(""), *figures, *map(Entry, [NOTHING] * 2)]


def _line(group: GroupStrategies, strategy: Strategy, measures: list[str]) -> list[Entry]:
    against_cell, against_single = group.test(strategy.cell, CELL), group.test(strategy.cell, group.single)
    return [
        *map(Entry, [group.label_group, str(strategy.cell), choice_words(strategy)]),
        *_figures(strategy.values, measures, group),
        *map(Entry, [_moved(against_cell), _moved(against_single)]),
    ]


def _figures(values: Mapping[Aspect, Value], measures: list[str], group: GroupStrategies) -> list[Entry]:
    """The figures of a line, in bold where no other line of the group has a higher one."""
    every = [group.single_values, *(strategy.values for strategy in group.strategies)]
    entries = []
    for measure in measures:
        aspect = next((aspect for aspect in values if measure_name(aspect) == measure), None)
        highest = max((of[aspect].mean for of in every if aspect in of), default=0.0) if aspect else 0.0
        value = values.get(aspect) if aspect else None
        entries.append(Entry(figure(value), bold=value is not None and value.mean >= highest))
    return entries


def _moved(test: Tested | None) -> str:
    return NOTHING if test is None else f"{gained(test.comparison)} {verdict(test.verdict)}"


def choice_words(strategy: Strategy) -> str:
    """What was chosen, and in how many folds, where folds can agree."""
    if strategy.cell.normalization == LEARNED or not strategy.folds:
        return strategy.choice
    return f"{strategy.choice} (in {strategy.alike} of {count(strategy.folds, 'fold')})"


def pair_table(dataset: Dataset) -> Table | None:
    """Every two strategies against each other, and each against the best retriever."""
    blocks = [[_pair_line(group, test) for test in group.tests] for group in dataset.strategies if group.tests]
    if not blocks:
        return None
    header = ("labels", "strategy", "against", "difference [95%]", "p folds", "p texts", "verdict")
    return Table(
        "strategy-pairs",
        f"{dataset.name}. Every two strategies, and each against the best retriever, over all test texts in the "
        "decisive measure; p over texts is Holm-corrected over the label group.",
        [(name,) for name in header],
        "lllrrrl",
        blocks,
    )


def _pair_line(group: GroupStrategies, test: Tested) -> list[Entry]:
    words = [group.label_group, str(test.cell), cell_name(test.against), gained(test.comparison, 2)]
    words += [p_value(test.comparison.p_folds), p_value(test.comparison.p_queries)]
    return [*map(Entry, words), Entry(verdict(test.verdict), bold=test.verdict.told_apart)]


def optimism_lines(dataset: Dataset) -> list[str]:
    """How much too much the best cell on the test texts promises, beside what the choice on validation texts gives."""
    lines = []
    for group in dataset.strategies:
        found = group.optimism
        if found is None:
            continue
        promised = found.best_value - found.chosen_value
        moral = f"Picking on test texts promises {points(promised, 2)} points that nobody gets"
        if points(promised, 2) == points(0.0, 2) or promised < 0:
            moral = "Nothing is lost by choosing before the test texts are seen"
        lines.append(
            f"{group.label_group} labels, {objective_name(group.objective)}: the best fixed cell picked on the test "
            f"texts, {found.best}, has {percent(found.best_value, 2)}; the cell chosen on {count(found.texts)} "
            f"validation texts per fold has {percent(found.chosen_value, 2)} on the test texts. {moral}. (On its "
            f"validation texts the chosen cell had {percent(found.validation_value, 2)}.)"
        )
    return lines


def curve_lines(dataset: Dataset) -> list[str]:
    """From how many validation texts on each strategy pays, a line per label group."""
    lines = []
    for group in dataset.strategies:
        curves = {cell: curve for cell, curve in group.curve.items() if cell != CELL and curve}
        if curves:
            lines.append(
                f"{group.label_group} labels: {'; '.join(_pays(cell, curve) for cell, curve in curves.items())}"
            )
    return lines


def _pays(cell: Cell, curve: Sequence[CurvePoint]) -> str:
    start, last = pays_from(curve), curve[-1]
    gain = f"{points(last.mean, 2)} points with {count(last.texts)}"
    if start is None:
        return f"{cell} does not stay above the chosen cell ({gain} validation texts per fold)"
    return f"{cell} pays from {count(start)} validation texts per fold on ({gain})"


def band_tables(dataset: Dataset) -> Iterator[Table]:
    """Relevant labels found by label frequency: the best retriever and every strategy, a table per label group."""
    for group in dataset.strategies:
        unseen = (dataset.unseen or {}).get(group.label_group)
        bands = dataset.bands.get(group.label_group, ())
        cells = [strategy.cell for strategy in group.strategies]
        if group.single is None or not bands or any(cell not in bands[0].found for cell in cells):
            continue
        k = max(next(iter(bands[0].found.values())))
        lines = _band_lines([unseen], cells, group.single, k) if unseen else []
        lines += _band_lines(list(bands), cells, group.single, k)
        header = ["texts per label", "labels", "pairs", cell_name(group.single), *map(str, cells)]
        yield Table(
            f"strategy-bands-{group.label_group}",
            f"{dataset.name}, {group.label_group} labels: relevant labels found in the first {k}, in percent, by label "
            f"frequency. {SIGNS[True]} {SIGNS[False]}: more, fewer than {cell_name(group.single)} by the sign test "
            "over texts (p below 0.05, Holm-corrected over the bands). Bold: the most.",
            [(name,) for name in header],
            "r" * len(header),
            [lines],
        )


def _band_lines(bands: list[Band], cells: list[Cell], single: Cell, k: int) -> list[list[Entry]]:
    p = {cell: corrected_band_p(bands, cell, single.fusion, k) for cell in cells}
    lines = []
    for i, band in enumerate(bands):
        alone = band.found[single][k].value
        most = max(band.found[cell][k].value for cell in (single, *cells))
        name = span(band.rarest, band.commonest) if band.commonest else "no training text"
        line = [Entry(name), Entry(count(band.labels)), Entry(count(band.pairs)), Entry(percent(alone), alone == most)]
        for cell in cells:
            share = band.found[cell][k].value
            told = p[cell].get(i, 1.0) < 0.05 and share != alone
            line.append(Entry(percent(share) + (f" {SIGNS[share > alone]}" if told else ""), bold=share == most))
        lines.append(line)
    return lines
