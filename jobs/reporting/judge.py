"""A result judged: every figure with its tests, next to the paper's."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from fusion.cells import SINGLE, Cell
from fusion.labels import ALL
from fusion.registry import FUSIONS
from fusion.statistics.significance import best_of, holm, mean_std, paired_t, winners
from jobs.evaluation.result import Results
from jobs.reporting.additions import read_additions
from jobs.reporting.answer import read_labels
from jobs.reporting.dataset import Dataset
from jobs.reporting.examples import read_examples
from jobs.reporting.formats import shown_cell
from jobs.reporting.model import Agreement, Aspect, By, Comparison, Gain, PaperFigures, Row, Value
from jobs.reporting.recommend import frequency_bands, rankings, recommendation, unseen_labels, verdict_of
from jobs.reporting.strategies import read_strategies
from jobs.reporting.tables import decisive
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


Folds = dict[int, float]
ByTexts = Mapping[tuple[Aspect, Cell, Cell], dict[str, Any]]
"""Comparisons text by text: of a cell against another in an aspect."""


class Judged(NamedTuple):
    """The figures of all cells by aspect, and how the fused ones compare with the best single retriever."""

    values: dict[Aspect, dict[Cell, Value]]
    against_single: dict[Aspect, dict[Cell, Comparison]]
    gains: list[Gain]


def _judged(figures: Mapping[Aspect, Mapping[Cell, Folds]], by_texts: ByTexts, test: Test, alpha: float) -> Judged:
    values: dict[Aspect, dict[Cell, Value]] = {}
    against_single: dict[Aspect, dict[Cell, Comparison]] = {}
    gains = []
    for aspect, cells in figures.items():
        means = {cell: mean_std(list(folds.values())).mean for cell, folds in cells.items()}
        fused = {cell: mean for cell, mean in means.items() if cell.normalization != SINGLE}
        best = best_of(fused)
        values[aspect] = _values(aspect, cells, best, by_texts, test, alpha)
        singles = {cell: mean for cell, mean in means.items() if cell.normalization == SINGLE}
        if singles:
            # The best of many cells is best by luck, too: it is tested as one of them.
            single = best_of(singles)
            against = _corrected({cell: _compared(aspect, cells, cell, single, by_texts) for cell in fused})
            against_single[aspect] = against
            verdict = verdict_of(against[best], len(cells[best]), test, alpha)
            alone = {cell.fusion: values[aspect][cell] for cell in singles}
            gains.append(Gain(aspect, alone, single.fusion, best, values[aspect][best], against[best], verdict))
    return Judged(values, against_single, gains)


def assemble(results: Results, test: Test, alpha: float) -> Dataset:
    """All figures of a dataset."""
    test = deciding_test(test, len(results.folds))
    figures = _figures(results)
    values, against_single, gains = _judged(figures, _by_texts(results), test, alpha)
    named = dict.fromkeys(cell for of_aspect in values.values() for cell in of_aspect)
    rows = [
        Row(cell, {aspect: of_aspect[cell] for aspect, of_aspect in values.items() if cell in of_aspect})
        for cell in named
    ]
    means_of = {aspect: {cell: value.mean for cell, value in of_aspect.items()} for aspect, of_aspect in values.items()}
    bands, unseen = frequency_bands(results), unseen_labels(results)
    pairs = _pairs(results, figures)
    sizes: dict[By, list[dict[str, Any]]] = {
        "text labels": results.rows("text_sizes"),
        "text words": results.rows("text_lengths"),
    }
    choices = results.rows("choices")
    recommended = recommendation(values, gains, against_single, bands, sizes, test, alpha, unseen, choices)
    return Dataset(
        name=results.config.dataset,
        test=test,
        folds=results.folds,
        missing_folds=results.missing_folds,
        queries=_queries(results),
        aspects=tuple(figures),
        rows=tuple(sorted(rows, key=lambda row: not row.single)),
        gains=tuple(gains),
        recommendation=recommended,
        bands=bands,
        unseen=unseen,
        pairs=pairs,
        rankings=rankings(values, pairs, alpha),
        agreement=_agreement(results),
        paper=paper_figures(results.config.dataset, means_of),
        input_counts=results.input_counts,
        sources=results.sources,
        evaluated=results.evaluated,
        version=results.version,
        config=results.config.to_yaml(),
        examples=read_examples(results.rows("examples")),
        labels=read_labels(results.rows("labels")),
        strategies=read_strategies(choices, results.rows("learning_curve"), values, pairs, test, alpha),
        notes=results.notes,
        additions=read_additions(results.rows("additions"), figures, recommended, test, alpha),
    )


def deciding_test(test: Test, folds: int) -> Test:
    """One fold is no sample of folds: there the texts decide, whatever was asked for."""
    return "queries" if folds == 1 and test == "folds" else test


def _figures(results: Results) -> dict[Aspect, dict[Cell, Folds]]:
    figures: dict[Aspect, dict[Cell, Folds]] = defaultdict(lambda: defaultdict(dict))
    for row in results.metrics.to_pylist():
        if row["value"] is not None:
            aspect = Aspect(row["label_group"], row["metric"], row["k"], row["ideal"])
            figures[aspect][Cell(row["normalization"], row["fusion"])][row["fold"]] = row["value"]
    return figures


def _by_texts(results: Results) -> ByTexts:
    return {
        (
            Aspect(row["label_group"], row["metric"], row["k"], row["ideal"]),
            Cell(row["normalization"], row["fusion"]),
            Cell(row["against_normalization"], row["against_fusion"]),
        ): row
        for row in results.rows("comparisons")
    }


def _values(
    aspect: Aspect, cells: Mapping[Cell, Folds], best: Cell, by_texts: ByTexts, test: Test, alpha: float
) -> dict[Cell, Value]:
    against = {cell: _compared(aspect, cells, cell, best, by_texts) for cell in cells if cell != best}
    against = _corrected(against)
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


def _corrected(against: dict[Cell, Comparison]) -> dict[Cell, Comparison]:
    """Holm's correction of the tests over texts. A fusion that reads ranks is one hypothesis, not one per
    normalisation."""
    fused = {cell: comparison for cell, comparison in against.items() if cell.normalization != SINGLE}
    queries = holm({shown_cell(cell): c.p_queries for cell, c in fused.items() if c.p_queries is not None})
    signs = holm({shown_cell(cell): c.p_randomization for cell, c in fused.items() if c.p_randomization is not None})
    corrected = {
        cell: replace(c, p_queries=queries.get(shown_cell(cell)), p_randomization=signs.get(shown_cell(cell)))
        for cell, c in fused.items()
    }
    return {**against, **corrected}


def _queries(results: Results) -> dict[str, int]:
    counted = results.metrics.group_by(["fold", "label_group"]).aggregate([("queries", "max")])
    texts: dict[str, int] = dict.fromkeys(results.metrics["label_group"].unique().to_pylist(), 0)
    for row in counted.to_pylist():
        texts[row["label_group"]] += row["queries_max"]
    return texts


def _pairs(
    results: Results, figures: Mapping[Aspect, Mapping[Cell, Folds]]
) -> dict[Aspect, dict[tuple[Cell, Cell], Comparison]]:
    """Any two distinct results in the aspects that a page shows; cells that share one stand under the first of them."""
    comparisons: dict[Aspect, dict[tuple[Cell, Cell], Comparison]] = {
        aspect: {} for aspect in compared_aspects(figures)
    }
    for row in results.rows("pairs"):
        aspect = Aspect(row["label_group"], row["metric"], row["k"], row["ideal"])
        one, other = (
            Cell(row["normalization"], row["fusion"]),
            Cell(row["against_normalization"], row["against_fusion"]),
        )
        if aspect in comparisons:
            effect = row["difference"] / row["deviation"] if row["deviation"] else None
            of_folds = _compared(aspect, figures[aspect], one, other, {}).p_folds
            tests = of_folds, row["p"], row["p_randomization"]
            moved = row["difference"], row["low"], row["high"], effect
            comparisons[aspect][one, other] = Comparison(*moved, *tests, row["queries"])
    return {aspect: pairs for aspect, pairs in comparisons.items() if pairs}


def compared_aspects(aspects: Iterable[Aspect]) -> list[Aspect]:
    """Of each label group the decisive measure and the first precision, by the paper's protocol."""
    shown = []
    of_protocol = [aspect for aspect in aspects if aspect.ideal == ALL]
    for group in dict.fromkeys(aspect.label_group for aspect in of_protocol):
        of_group = [aspect for aspect in of_protocol if aspect.label_group == group]
        precisions = sorted((aspect for aspect in of_group if aspect.metric == "precision"), key=lambda one: one.k)
        shown += list(dict.fromkeys([decisive(of_group), *precisions[:1]]))
    return shown


def _agreement(results: Results) -> tuple[Agreement, ...]:
    groups: dict[str, Agreement] = {}
    for row in results.rows("agreement"):
        group, quantity, value = row["label_group"], row["quantity"], row["value"]
        here = groups.setdefault(group, Agreement(group, {}, {}, {}, {}, 0.0, {}))
        if quantity == "overlap":
            here.overlap[row["retriever"], row["other"]] = value
        elif quantity == "union":
            groups[group] = Agreement(group, here.candidates, here.overlap, here.found, here.alone, value, here.ceiling)
        elif quantity == "ceiling":
            here.ceiling[Aspect(group, row["metric"], row["k"], row["ideal"])] = value
        else:
            getattr(here, quantity)[row["retriever"]] = value
    return tuple(groups.values())
