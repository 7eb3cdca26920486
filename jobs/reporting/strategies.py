"""Fixed, tuned and learned fusions compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fusion.cells import LEARNED, Cell
from fusion.metrics import Aspect
from fusion.models.strategies import CELL
from jobs.reporting.dataset import DatasetReport
from jobs.reporting.formats import (
    NOTHING,
    cell_name,
    count,
    figure,
    full_metric_name,
    objective_name,
    p_value,
    percent,
    points,
    span,
    verdict,
)
from jobs.reporting.formats import gain as gained
from jobs.reporting.model import Band, Value
from jobs.reporting.parts import Entry, Table
from jobs.reporting.recommend import corrected_band_p
from jobs.reporting.tuned import CurvePoint, GroupStrategies, Strategy, Tested


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


def strategies_meaning(dataset: DatasetReport) -> str:
    """On which texts choices were made, and what the names of strategies mean."""
    return " ".join([*(f"{note[:1].upper()}{note[1:]}." for note in dataset.result.notes), MEANING])


def strategy_table(dataset: DatasetReport) -> Table:
    """A block per label group: the best retriever, then every strategy."""
    aspects = (aspect for group in dataset.strategies for aspect in group.aspects)
    metrics = list(dict.fromkeys(map(full_metric_name, aspects)))
    blocks = []
    for group in dataset.strategies:
        lines = [_line(group, strategy, metrics) for strategy in group.strategies]
        blocks.append([_single_line(group, metrics), *lines] if group.single else lines)
    header = ["labels", "strategy", "chosen over all folds", *metrics]
    header += ["over tuned+cell", "over the retriever"]
    return Table(
        "strategies",
        f"{dataset.name}. {strategies_meaning(dataset)} In percent; differences in points with their 95% interval over "
        "all test texts. Better, worse: by the tests over folds and over texts, the latter Holm-corrected over the "
        "label group. The retriever: the best one alone. Bold: the highest figure.",
        [(name,) for name in header],
        "lll" + "r" * len(metrics) + "rr",
        blocks,
    )


def _single_line(group: GroupStrategies, metrics: list[str]) -> list[Entry]:
    assert group.single is not None
    figures = _figures(group.single_values, metrics, group)
    return [Entry(group.label_group), Entry(cell_name(group.single)), Entry(""), *figures, *map(Entry, [NOTHING] * 2)]


def _line(group: GroupStrategies, strategy: Strategy, metrics: list[str]) -> list[Entry]:
    against_cell, against_single = group.test(strategy.cell, CELL), group.test(strategy.cell, group.single)
    return [
        *map(Entry, [group.label_group, str(strategy.cell), choice_words(strategy)]),
        *_figures(strategy.values, metrics, group),
        *map(Entry, [_moved(against_cell), _moved(against_single)]),
    ]


def _figures(values: Mapping[Aspect, Value], metrics: list[str], group: GroupStrategies) -> list[Entry]:
    """The figures of a line, in bold where no other line of the group has a higher one."""
    every = [group.single_values, *(strategy.values for strategy in group.strategies)]
    entries = []
    for metric in metrics:
        aspect = next((aspect for aspect in values if full_metric_name(aspect) == metric), None)
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


def pair_table(dataset: DatasetReport) -> Table | None:
    """Every two strategies against each other, and each against the best retriever."""
    blocks = [[_pair_line(group, test) for test in group.tests] for group in dataset.strategies if group.tests]
    if not blocks:
        return None
    header = ("labels", "strategy", "against", "difference [95%]", "p folds", "p texts", "verdict")
    return Table(
        "strategy-pairs",
        f"{dataset.name}. Every two strategies, and each against the best retriever, over all test texts in the "
        "decisive metric; p over texts is Holm-corrected over the label group.",
        [(name,) for name in header],
        "lllrrrl",
        blocks,
    )


def _pair_line(group: GroupStrategies, test: Tested) -> list[Entry]:
    words = [group.label_group, str(test.cell), cell_name(test.against), gained(test.comparison, 2)]
    words += [p_value(test.comparison.p_folds), p_value(test.comparison.p_queries)]
    return [*map(Entry, words), Entry(verdict(test.verdict), bold=test.verdict.significant)]


def optimism_lines(dataset: DatasetReport) -> list[str]:
    """How much more the best cell on the test texts promises than the choice on validation texts gives."""
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


def curve_lines(dataset: DatasetReport) -> list[str]:
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


def band_tables(dataset: DatasetReport) -> Iterator[Table]:
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
