"""Reports of made-up results, shaped like real ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from fusion.cells import SINGLE, Cell
from fusion.grid.grid import Grid
from fusion.metrics import Aspect, Metric
from fusion.registry import FUSIONS
from fusion.statistics.significance import sign_change_p, wilson_interval
from jobs.evaluation.result import Result
from jobs.evaluation.schemas import METRICS_SCHEMA
from jobs.reporting.dataset import DatasetReport, Report
from jobs.reporting.formats import shown_cell
from jobs.reporting.judge import Judged, compared_aspects, deciding_test, verdict_of
from jobs.reporting.model import (
    Agreement,
    Band,
    BandTest,
    Comparison,
    Gain,
    PaperFigures,
    Recommendation,
    Row,
    Share,
    Value,
)
from jobs.reporting.recommend import rankings, recommendation
from jobs.settings.config import load_config
from jobs.settings.sections import Test

DATASETS = {"Eurlex-4K": 19_314, "Wiki10-31K": 20_762, "Amazon-670K": 643_474, "AmazonCat-13K": 1_493_021}
"""Names and numbers of texts."""
RETRIEVERS = ("bm25", "dense")
SINGLES = [Cell(SINGLE, name) for name in RETRIEVERS]
CELLS = Grid.of("all", "all").cells
METRICS = [Metric(metric, k) for metric in ("ndcg", "precision") for k in (1, 5, 10)]
ASPECTS = tuple(
    Aspect(group, metric.name, metric.k, ideal)
    for group, ideal in (("tail", "all"), ("tail", "group"), ("head", "all"), ("head", "group"), ("all", "all"))
    for metric in METRICS
)
ALPHA = 0.05
_LEVEL = {"tail": (0.51, 0.28, 0.27, 0.51, 0.21, 0.12), "head": (0.82, 0.65, 0.67, 0.82, 0.55, 0.34)}
_LEVEL["all"] = (0.85, 0.68, 0.66, 0.85, 0.61, 0.41)


class _Figure(NamedTuple):
    """The folds' means of a cell, and the standard deviation over its texts."""

    folds: tuple[float, ...]
    spread: float


def sample_report(
    datasets: int = 1,
    *,
    aspects: Sequence[Aspect] = ASPECTS,
    folds: int = 5,
    missing: Sequence[int] = (),
    paper: bool = True,
    bands: bool = True,
    agreement: bool = True,
    test: Test = "folds",
    seed: int = 7,
) -> Report:
    """A report on 1 to 4 datasets. `folds` counts those the datasets should have, `missing` names those they lack."""
    there = tuple(fold for fold in range(folds) if fold not in missing)
    deciding = deciding_test(test, len(there))
    made = [
        _dataset(seed, i, name, texts, tuple(aspects), there, tuple(missing), deciding)
        for i, (name, texts) in enumerate(list(DATASETS.items())[:datasets])
    ]
    kept = tuple(
        with_parts(
            dataset,
            paper=dataset.paper if paper else None,
            bands=dataset.bands if bands else {},
            recommendation=dataset.recommendation if bands else _without_slices(dataset.recommendation),
            pairs=dataset.pairs if bands else {},
            rankings=dataset.rankings if bands else (),
            agreement=dataset.agreement if agreement else (),
        )
        for dataset in made
    )
    return Report("Rank fusion for extreme multi-label text classification", kept, test, ALPHA, "0.3.0")


def _without_slices(found: Recommendation | None) -> Recommendation | None:
    standings = tuple(replace(standing, slices=()) for standing in found.standings) if found else ()
    return replace(found, standings=standings) if found else None


@cache
def _dataset(
    seed: int,
    number: int,
    name: str,
    texts: int,
    aspects: tuple[Aspect, ...],
    folds: tuple[int, ...],
    missing: tuple[int, ...],
    test: Test,
) -> DatasetReport:
    rng = np.random.default_rng([seed, number])
    groups = tuple(dict.fromkeys(aspect.label_group for aspect in aspects))
    queries = {group: int(texts * {"tail": 0.52, "head": 0.99}.get(group, 1)) for group in groups}
    quality = _quality(rng)
    table = {aspect: _aspect(rng, aspect, quality, folds) for aspect in aspects}
    values = {aspect: _values(table[aspect], folds, queries[aspect.label_group], test) for aspect in aspects}
    rows = tuple(Row(cell, {aspect: values[aspect][cell] for aspect in aspects}) for cell in [*SINGLES, *CELLS])
    gains = tuple(_gain(aspect, table[aspect], values[aspect], queries[aspect.label_group], test) for aspect in aspects)
    bands = _bands(rng, groups, quality, texts)
    pairs = _pairs(aspects, table, queries)
    judged = Judged(values, _against_single(table, queries), list(gains))
    sizes = {"text labels": _text_sizes(aspects, table)}
    return with_parts(
        DatasetReport(_result(name, texts), test, ALPHA),
        test=test,
        folds=folds,
        missing_folds=missing,
        texts=queries,
        aspects=aspects,
        values=values,
        rows=rows,
        gains=gains,
        recommendation=recommendation(judged, bands, sizes, test, ALPHA),
        bands=bands,
        unseen=None,
        pairs=pairs,
        rankings=rankings(values, pairs, ALPHA),
        agreement=tuple(_agreement(group, aspects, table) for group in groups),
        paper=_paper(rng, aspects, table),
        examples=(),
        labels=(),
        strategies=(),
        additions=(),
    )


def with_parts(dataset: DatasetReport, **parts: object) -> DatasetReport:
    """The same report with some of its parts as they are given, instead of computed from the result."""
    other = copy(dataset)
    vars(other).update(parts)
    return other


def _result(name: str, texts: int) -> Result:
    """Where the made-up figures come from."""
    return Result(
        load_config(None, {"dataset": name}),
        METRICS_SCHEMA.empty_table(),
        {"judged_texts": texts, "empty_lists:dense": texts // 5, "nonpositive_lists:bm25": 0},
        sources=(f"results/{name.lower()}/metrics", f"results/{name.lower()}/query_metrics"),
        version="0.3.0+g1a2b3c4",
        evaluated="2024-03-01 04:12:09",
    )


def _quality(rng: np.random.Generator) -> dict[Cell, float]:
    """How good a cell is, about 1 for the best. Fusions that read only ranks are equally good in all rows."""
    fusions = {"combmin": 0.62, "combmax": 0.93, "combmed": 0.86, "combanz": 0.85, "combsum": 0.99, "combmnz": 1.0}
    normalizations = {"zmuv": 1.0, "min-max": 0.985, "max": 0.98, "sum": 0.95, "rank": 0.96, "borda": 0.955}
    ranked = {name: 0.95 + 0.03 * rng.random() for name in dict.fromkeys(cell.fusion for cell in CELLS)}
    quality = {
        cell: fusions[cell.fusion] * normalizations[cell.normalization] + 0.004 * rng.normal()
        if FUSIONS[cell.fusion].reads == "scores"
        else ranked[cell.fusion]
        for cell in CELLS
    }
    return {SINGLES[0]: 0.91, SINGLES[1]: 0.88, **quality}


def _aspect(
    rng: np.random.Generator, aspect: Aspect, quality: dict[Cell, float], folds: tuple[int, ...]
) -> dict[Cell, _Figure]:
    level = _LEVEL[aspect.label_group][METRICS.index(aspect.metric_at_k)]
    if aspect.ideal == "group" and aspect.metric == "ndcg" and aspect.k > 1:
        level += 0.2
    of_fold = rng.normal(0, 0.006, len(folds))
    ranked: dict[str, _Figure] = {}
    figures = {}
    for cell, share in quality.items():
        if aspect.label_group == "head" and cell == SINGLES[1]:
            share = 0.985 + 0.01 * rng.random()  # about as good as the best fusion
        drawn = level * share + of_fold + rng.normal(0, 0.002, len(folds))
        figure = _Figure(tuple(np.clip(drawn, 0, 1).tolist()), 0.3)
        rank_based = cell not in SINGLES and FUSIONS[cell.fusion].reads == "ranks"
        figures[cell] = ranked.setdefault(cell.fusion, figure) if rank_based else figure
    return figures


def _compare(one: _Figure, other: _Figure, texts: int) -> Comparison:
    """`one` minus `other`."""
    differences = np.subtract(one.folds, other.folds)
    difference = float(differences.mean())
    if not differences.any():
        return Comparison(0.0, 0.0, 0.0, 0.0, None if len(differences) < 2 else 1.0, 1.0, 1.0, texts)
    error = one.spread / math.sqrt(texts)
    p = min(1.0, 10 * 2 * float(special.ndtr(-abs(difference) / error)))
    return Comparison(
        difference,
        difference - 1.96 * error,
        difference + 1.96 * error,
        difference / one.spread,
        _t_test(differences) if len(differences) > 1 else None,
        p,
        max(p, 1e-4),
        texts,
    )


def _t_test(differences: np.ndarray) -> float:
    n = len(differences)
    return 2 * float(special.stdtr(n - 1, -abs(differences.mean()) / (differences.std(ddof=1) / math.sqrt(n))))


def _values(figures: dict[Cell, _Figure], folds: tuple[int, ...], texts: int, test: Test) -> dict[Cell, Value]:
    best = max(CELLS, key=lambda cell: np.mean(figures[cell].folds))
    values = {}
    for cell, figure in figures.items():
        against = None if cell == best else _compare(figure, figures[best], texts)
        p = against.p(test) if against else None
        values[cell] = Value(
            mean=float(np.mean(figure.folds)),
            std=float(np.std(figure.folds, ddof=1)) if len(folds) > 1 else None,
            folds=dict(zip(folds, figure.folds, strict=True)),
            best=cell == best,
            bold=cell == best or (cell in CELLS and p is not None and p >= ALPHA),
            against_best=against,
        )
    return values


def _gain(aspect: Aspect, figures: dict[Cell, _Figure], values: dict[Cell, Value], texts: int, test: Test) -> Gain:
    best = next(cell for cell in CELLS if values[cell].best)
    better = max(SINGLES, key=lambda cell: values[cell].mean)
    comparison = _compare(figures[best], figures[better], texts)
    verdict = verdict_of(comparison, len(figures[best].folds), test, ALPHA)
    return Gain(
        aspect, {cell.fusion: values[cell] for cell in SINGLES}, better.fusion, best, values[best], comparison, verdict
    )


def _against_single(
    table: dict[Aspect, dict[Cell, _Figure]], queries: dict[str, int]
) -> dict[Aspect, dict[Cell, Comparison]]:
    found = {}
    for aspect, figures in table.items():
        better = max(SINGLES, key=lambda cell: np.mean(figures[cell].folds))
        texts = queries[aspect.label_group]
        found[aspect] = {cell: _compare(figures[cell], figures[better], texts) for cell in CELLS}
    return found


def _bands(
    rng: np.random.Generator, groups: tuple[str, ...], quality: dict[Cell, float], texts: int
) -> dict[str, tuple[Band, ...]]:
    """Tenths of all labels: eight of tail labels, two of head labels. The dense retriever finds more of the rarest."""
    edges = [1, 1, 2, 2, 3, 5, 8, 13, 27, 88, 1253]
    numbers = {"tail": range(1, 9), "head": range(9, 11), "all": range(1, 11)}

    noise = {shown_cell(cell): 0.005 * rng.normal(size=10) for cell in quality}

    def share(number: int, cell: Cell, k: int, pairs: int) -> Share:
        lean = {"bm25": 0.06 - 0.012 * number, "dense": 0.4 - 0.1 * number if number < 4 else -0.05}
        level = quality[cell] * (0.25 + 0.06 * number) + lean.get(cell.fusion, 0) + noise[shown_cell(cell)][number - 1]
        hits = round(pairs * float(np.clip(level * {1: 0.4, 5: 0.8, 10: 1}[k], 0, 1)))
        low, high = wilson_interval(np.array([hits]), np.array([pairs]))
        return Share(hits, hits / pairs, float(low[0]), float(high[0]))

    def band(number: int) -> Band:
        pairs = texts * number // 10
        found = {cell: {k: share(number, cell, k, pairs) for k in (1, 5, 10)} for cell in quality}
        tests = {}
        for cell, single in product(CELLS, SINGLES):
            hits = {k: (found[cell][k].hits, found[single][k].hits) for k in (1, 5, 10)}
            # Half of what the lesser one finds is found by the other, too; every text has one label.
            tests[cell, single.fusion] = {
                k: band_test(a - min(a, b) // 2, b - min(a, b) // 2) for k, (a, b) in hits.items()
            }
        return Band(edges[number - 1], edges[number], texts // 50, pairs, found, tests)

    bands = {number: band(number) for number in range(1, 11)}
    return {group: tuple(bands[n] for n in numbers[group]) for group in groups}


def band_test(more: int, fewer: int) -> BandTest:
    """The test of texts that differ by one label each."""
    moves = np.zeros((1, 2), np.int64)
    moves[0] = more, fewer
    return BandTest(more, fewer, float(sign_change_p(moves)[0]))


def _text_sizes(aspects: tuple[Aspect, ...], table: dict[Aspect, dict[Cell, _Figure]]) -> list[dict[str, object]]:
    """Rows of that table: texts with one label are better served by the dense retriever."""
    rows: list[dict[str, object]] = []
    for aspect in compared_aspects(aspects):
        for (fewest, most), cell, single in product(((1, 1), (2, 5), (6, None)), CELLS, SINGLES):
            value = float(np.mean(table[aspect][cell].folds))
            other = value + (0.02 if (single.fusion, fewest) == ("dense", 1) else -0.01)
            compared = {"value": value, "retriever_value": other, "difference": value - other, "p": 1e-4}
            texts = {"fewest": fewest, "most": most, "queries": 1000, "retriever": single.fusion}
            rows.append({**aspect._asdict(), **cell._asdict(), **texts, **compared})
    return rows


def _pairs(
    aspects: tuple[Aspect, ...], table: dict[Aspect, dict[Cell, _Figure]], queries: dict[str, int]
) -> dict[Aspect, dict[tuple[Cell, Cell], Comparison]]:
    """Every two distinct results; cells that share one stand under the first."""
    first: dict[Cell, Cell] = {}
    for cell in [*CELLS, *SINGLES]:
        first.setdefault(shown_cell(cell), cell)
    return {
        aspect: {
            (one, other): _compare(table[aspect][one], table[aspect][other], queries[aspect.label_group])
            for one, other in combinations(first.values(), 2)
        }
        for aspect in compared_aspects(aspects)
    }


def _agreement(group: str, aspects: tuple[Aspect, ...], table: dict[Aspect, dict[Cell, _Figure]]) -> Agreement:
    union = {"tail": 0.81, "head": 0.96}.get(group, 0.92)
    alone = {"bm25": 0.11, "dense": 0.08}
    return Agreement(
        label_group=group,
        candidates={"bm25": 41.3, "dense": 64.0},
        overlap={RETRIEVERS: 0.23 if group == "tail" else 0.41},
        found={"bm25": union - alone["dense"], "dense": union - alone["bm25"]},
        alone=alone,
        union=union,
        ceiling={
            aspect: min(1, 1.25 * max(np.mean(figure.folds).item() for figure in table[aspect].values()))
            for aspect in aspects
            if aspect.label_group == group
        },
    )


def _paper(
    rng: np.random.Generator, aspects: tuple[Aspect, ...], table: dict[Aspect, dict[Cell, _Figure]]
) -> PaperFigures:
    shown = [aspect for aspect in aspects if aspect.label_group != "all" and aspect.ideal == "all"]
    values = {
        (cell, aspect): (float(np.mean(table[aspect][cell].folds) + rng.normal(0, 0.015)), 0.012)
        for aspect in shown
        for cell in CELLS
    }
    correlation = {
        aspect: float(
            stats.spearmanr(
                [values[cell, aspect][0] for cell in CELLS], [np.mean(table[aspect][cell].folds) for cell in CELLS]
            ).statistic
        )
        for aspect in shown
    }
    left_out = "borda with isr, log-isr, bordafuse and condorcet: the paper's figures are those of unsorted lists"
    return PaperFigures("Table 3", values, correlation, len(CELLS) - 4, left_out)
