"""From the results of an evaluation to what a report shows: spreads, tests, winners and gains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fusion.grid import SINGLE, Cell
from fusion.registry import FUSIONS
from fusion.statistics.significance import best_of, holm, paired_t, winners
from fusion.statistics.summary import mean_std
from jobs.reporting.data import Agreement, Band, Column, Comparison, Dataset, Gain, Outcome, Row, Test, Value, Verdict
from jobs.reporting.paper import paper_figures
from jobs.results.stored import Results

Folds = dict[int, float]
ByTexts = Mapping[tuple[Column, Cell, Cell], dict[str, Any]]
"""Comparisons text by text: of a cell against another in a column."""


def assemble(results: Results, test: Test, alpha: float) -> Dataset:
    """All figures of a dataset."""
    test = deciding_test(test, len(results.folds))
    figures = _figures(results)
    by_texts = _by_texts(results)
    values: dict[Column, dict[Cell, Value]] = {}
    gains = []
    for column, cells in figures.items():
        means = {cell: mean_std(list(folds.values())).mean for cell, folds in cells.items()}
        best = best_of({cell: mean for cell, mean in means.items() if cell.normalization != SINGLE})
        values[column] = _values(column, cells, best, by_texts, test, alpha)
        singles = {cell: mean for cell, mean in means.items() if cell.normalization == SINGLE}
        if singles:
            gains.append(_gain(column, cells, values[column], best, best_of(singles), by_texts, test, alpha))
    named = dict.fromkeys(cell for found in values.values() for cell in found)
    rows = [Row(cell, {column: found[cell] for column, found in values.items() if cell in found}) for cell in named]
    ours = {column: {cell: value.mean for cell, value in found.items()} for column, found in values.items()}
    return Dataset(
        name=results.config.dataset,
        test=test,
        folds=results.folds,
        missing_folds=results.missing_folds,
        queries=_queries(results),
        columns=tuple(figures),
        rows=tuple(sorted(rows, key=lambda row: not row.single)),
        gains=tuple(gains),
        bands=_bands(results),
        agreement=_agreement(results),
        paper=paper_figures(results.config.dataset, ours),
        input_counts=results.input_counts,
        sources=results.sources,
        evaluated=results.evaluated,
        version=results.version,
        config=results.config.to_yaml(),
    )


def deciding_test(test: Test, folds: int) -> Test:
    """One fold is no sample of folds: there the texts decide, whatever was asked for."""
    return "queries" if folds == 1 and test == "folds" else test


def _figures(results: Results) -> dict[Column, dict[Cell, Folds]]:
    found: dict[Column, dict[Cell, Folds]] = defaultdict(lambda: defaultdict(dict))
    for row in results.metrics.to_pylist():
        if row["value"] is not None:
            column = Column(row["label_group"], row["metric"], row["k"], row["ideal"])
            found[column][Cell(row["normalization"], row["fusion"])][row["fold"]] = row["value"]
    return found


def _by_texts(results: Results) -> ByTexts:
    rows = results.details["comparisons"].to_pylist() if "comparisons" in results.details else []
    return {
        (
            Column(row["label_group"], row["metric"], row["k"], row["ideal"]),
            Cell(row["normalization"], row["fusion"]),
            Cell(row["against_normalization"], row["against_fusion"]),
        ): row
        for row in rows
    }


def _values(
    column: Column, cells: Mapping[Cell, Folds], best: Cell, by_texts: ByTexts, test: Test, alpha: float
) -> dict[Cell, Value]:
    against = {cell: _compared(column, cells, cell, best, by_texts) for cell in cells if cell != best}
    against = _corrected(against)
    bold = winners({cell: c.p(test) for cell, c in against.items() if cell.normalization != SINGLE}, best, alpha)
    found = {}
    for cell, folds in cells.items():
        mean, std = mean_std(list(folds.values()))
        deviation = std if len(folds) > 1 else None
        found[cell] = Value(mean, deviation, dict(folds), cell == best, cell in bold, against.get(cell))
    return found


def _compared(column: Column, cells: Mapping[Cell, Folds], cell: Cell, other: Cell, by_texts: ByTexts) -> Comparison:
    """A cell against another: over the folds that both have, and over texts where those were compared."""
    shared = [fold for fold in cells[cell] if fold in cells[other]]
    differences = [cells[cell][fold] - cells[other][fold] for fold in shared]
    p_folds = paired_t(differences).p if len(shared) > 1 else None
    row = by_texts.get((column, cell, other))
    if row is None:
        return Comparison(sum(differences) / len(shared) if shared else float("nan"), p_folds=p_folds)
    tests = p_folds, row["p"], row["p_randomization"]
    return Comparison(row["difference"], row["low"], row["high"], row["effect"], *tests, row["queries"])


def _corrected(against: dict[Cell, Comparison]) -> dict[Cell, Comparison]:
    """Holm's correction of the tests over texts. Cells that are one and the same fusion are one hypothesis."""
    fused = {cell: comparison for cell, comparison in against.items() if cell.normalization != SINGLE}
    queries = holm({_hypothesis(cell): c.p_queries for cell, c in fused.items() if c.p_queries is not None})
    signs = holm({_hypothesis(cell): c.p_randomization for cell, c in fused.items() if c.p_randomization is not None})
    corrected = {
        cell: replace(c, p_queries=queries.get(_hypothesis(cell)), p_randomization=signs.get(_hypothesis(cell)))
        for cell, c in fused.items()
    }
    return {**against, **corrected}


def _hypothesis(cell: Cell) -> Cell:
    """A fusion that reads ranks gives one result under every normalisation."""
    return Cell("", cell.fusion) if FUSIONS[cell.fusion].reads == "ranks" else cell


def _gain(
    column: Column,
    cells: Mapping[Cell, Folds],
    values: Mapping[Cell, Value],
    best: Cell,
    single: Cell,
    by_texts: ByTexts,
    test: Test,
    alpha: float,
) -> Gain:
    # The best of many cells is best by luck, too: it is tested as one of them.
    fused = [cell for cell in cells if cell.normalization != SINGLE]
    comparison = _corrected({cell: _compared(column, cells, cell, single, by_texts) for cell in fused})[best]
    singles = {cell.fusion: value for cell, value in values.items() if cell.normalization == SINGLE}
    verdict = verdict_of(comparison, len(cells[best]), test, alpha)
    return Gain(column, singles, single.fusion, best, values[best], comparison, verdict)


def verdict_of(comparison: Comparison, folds: int, test: Test, alpha: float) -> Verdict:
    """Folds alone are too few to trust: the texts must say the same. One fold leaves the texts alone to decide."""
    tests: tuple[Test, ...] = ("folds", "queries") if folds > 1 else (test,)
    ps = [comparison.p(each) for each in tests]
    outcome: Outcome = "better" if comparison.difference > 0 else "worse"
    if any(p is None for p in ps):
        outcome = "not tested"
    elif any(p is not None and p >= alpha for p in ps):
        outcome = "not told apart"
    return Verdict(outcome, folds, comparison.texts)


def _queries(results: Results) -> dict[str, int]:
    counted = results.metrics.group_by(["fold", "label_group"]).aggregate([("queries", "max")])
    found: dict[str, int] = dict.fromkeys(results.metrics["label_group"].unique().to_pylist(), 0)
    for row in counted.to_pylist():
        found[row["label_group"]] += row["queries_max"]
    return found


def _bands(results: Results) -> dict[str, tuple[Band, ...]]:
    found: dict[str, dict[int, Band]] = defaultdict(dict)
    for row in results.details["bands"].to_pylist() if "bands" in results.details else []:
        bands = found[row["label_group"]]
        if row["band"] not in bands:
            ends = row["rarest"], row["commonest"]
            bands[row["band"]] = Band(row["band"], *ends, row["labels"], row["pairs"], {})
        cell = Cell(row["normalization"], row["fusion"])
        bands[row["band"]].found.setdefault(cell, {})[row["k"]] = row["value"]
    return {group: tuple(bands[number] for number in sorted(bands)) for group, bands in found.items()}


def _agreement(results: Results) -> tuple[Agreement, ...]:
    found: dict[str, Agreement] = {}
    for row in results.details["agreement"].to_pylist() if "agreement" in results.details else []:
        group, quantity, value = row["label_group"], row["quantity"], row["value"]
        here = found.setdefault(group, Agreement(group, {}, {}, {}, {}, 0.0, {}))
        if quantity == "overlap":
            here.overlap[row["retriever"], row["other"]] = value
        elif quantity == "union":
            found[group] = Agreement(group, here.candidates, here.overlap, here.found, here.alone, value, here.ceiling)
        elif quantity == "ceiling":
            here.ceiling[Column(group, row["metric"], row["k"], row["ideal"])] = value
        else:
            getattr(here, quantity)[row["retriever"]] = value
    return tuple(found.values())
