"""Which cell a report recommends, overall and by bands of label frequency."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fusion.cells import SINGLE, Cell
from fusion.errors import InputError
from fusion.labels import ALL
from fusion.metrics import Aspect, decisive_aspect
from fusion.statistics.coverage import FEWEST_PAIRS
from fusion.statistics.recommendation import recommend
from fusion.statistics.significance import holm, ranked_groups, wilson_interval
from jobs.evaluation.result import Result
from jobs.reporting.formats import full_metric_name, shown_cell
from jobs.reporting.judge import Judged, verdict_of
from jobs.reporting.model import (
    Band,
    BandTest,
    By,
    Comparison,
    Gain,
    Outcome,
    RankedCell,
    Ranking,
    Recommendation,
    Safety,
    Share,
    Slice,
    Standing,
    Value,
    Verdict,
    group_order,
)
from jobs.settings.sections import Test


def frequency_bands(result: Result) -> dict[str, tuple[Band, ...]]:
    """By label group, from the rarest labels to the most frequent."""
    return {
        group: tuple(joined([bands[number] for number in sorted(bands) if number]))
        for group, bands in _numbered(result).items()
    }


def unseen_labels(result: Result) -> dict[str, Band] | None:
    """By label group, the pairs whose label has no training text; None where the results do not know."""
    if not result.knows_training:
        return None
    return {group: bands[0] for group, bands in _numbered(result).items() if 0 in bands}


def _numbered(result: Result) -> dict[str, dict[int, Band]]:
    """The bands of each label group by their numbers."""
    groups: dict[str, dict[int, Band]] = defaultdict(dict)
    for row in result.rows("bands"):
        bands = groups[row["label_group"]]
        if row["band"] not in bands:
            bands[row["band"]] = Band(row["rarest"], row["commonest"], row["labels"], row["pairs"], {}, {})
        share = Share(round(row["value"] * row["pairs"]), row["value"], row["low"], row["high"])
        bands[row["band"]].found.setdefault(Cell(row["normalization"], row["fusion"]), {})[row["k"]] = share
    for row in result.rows("band_tests"):
        tests = groups[row["label_group"]][row["band"]].tests
        key = Cell(row["normalization"], row["fusion"]), row["retriever"]
        tests.setdefault(key, {})[row["k"]] = BandTest(row["more"], row["fewer"], row["p"])
    return groups


def joined(bands: Sequence[Band]) -> Iterator[Band]:
    """The bands, those with few pairs joined with the next; the last ones with the one before."""
    open_bands: list[list[Band]] = [[]]
    for band in bands:
        open_bands[-1].append(band)
        if sum(one.pairs for one in open_bands[-1]) >= FEWEST_PAIRS:
            open_bands.append([])
    rest = open_bands.pop()
    if open_bands:
        open_bands[-1] += rest
    elif rest:
        open_bands.append(rest)
    for together in open_bands:
        yield together[0] if len(together) == 1 else _one(together)


def _one(bands: Sequence[Band]) -> Band:
    pairs = sum(band.pairs for band in bands)
    shares_of: dict[Cell, dict[int, Share]] = {}
    for cell, shares in bands[0].found.items():
        for k in shares:
            hits = sum(band.found[cell][k].hits for band in bands)
            low, high = wilson_interval(np.array([hits]), np.array([pairs]))
            shares_of.setdefault(cell, {})[k] = Share(hits, hits / pairs, float(low[0]), float(high[0]))
    labels = sum(band.labels for band in bands)
    rarest, commonest = min(band.rarest for band in bands), max(band.commonest for band in bands)
    # A text may have labels in several of the bands, and its tests were made band by band: they do not add up.
    return Band(rarest, commonest, labels, pairs, shares_of, {})


def frequency_slices(
    bands: Sequence[Band], cell: Cell, singles: Sequence[str], k: int, alpha: float, by: By = "frequency"
) -> list[Slice]:
    """A cell against each single retriever, band by band."""
    slices = []
    for single in singles:
        corrected = corrected_band_p(bands, cell, single, k)
        for i, band in enumerate(bands):
            share, of_single = band.found[cell][k].value, band.found[Cell(SINGLE, single)][k].value
            tested = band.tests.get((cell, single), {}).get(k)
            slices.append(
                Slice(
                    by,
                    low=band.rarest,
                    high=band.commonest,
                    labels=band.labels,
                    number=band.pairs,
                    k=k,
                    single=single,
                    share=share,
                    of_single=of_single,
                    more=tested.more if tested else None,
                    fewer=tested.fewer if tested else None,
                    p=corrected.get(i),
                    outcome=_outcome(share - of_single, corrected.get(i), alpha),
                )
            )
    return slices


def corrected_band_p(bands: Sequence[Band], cell: Cell, single: str, k: int) -> dict[int, float]:
    """p of a cell against a retriever in each band, by the band's number, Holm-corrected over the bands."""
    tests = {i: band.tests.get((cell, single), {}).get(k) for i, band in enumerate(bands)}
    return holm({i: test.p for i, test in tests.items() if test is not None})


def text_slices(
    sizes: Sequence[Mapping[str, Any]], aspect: Aspect, cell: Cell, alpha: float, by: By = "text labels"
) -> list[Slice]:
    """A cell against each single retriever, by the number of relevant labels or of words of the texts."""
    rows = [
        row
        for row in sizes
        if (Aspect(row["label_group"], row["metric"], row["k"], row["ideal"]), row["normalization"], row["fusion"])
        == (aspect, *cell)
    ]
    slices = []
    for single in dict.fromkeys(row["retriever"] for row in rows):
        of_single = [row for row in rows if row["retriever"] == single]
        tested = {i: row["p"] for i, row in enumerate(of_single) if row["p"] is not None and row["p"] == row["p"]}
        corrected = holm(tested)
        for i, row in enumerate(of_single):
            slices.append(
                Slice(
                    by,
                    low=row["fewest"],
                    high=row["most"],
                    labels=None,
                    number=row["queries"],
                    k=row["k"],
                    single=single,
                    share=row["value"],
                    of_single=row["retriever_value"],
                    more=None,
                    fewer=None,
                    p=corrected.get(i),
                    outcome=_outcome(row["difference"], corrected.get(i), alpha),
                )
            )
    return slices


def _outcome(difference: float, p: float | None, alpha: float) -> Outcome:
    if p is None:
        return "not tested"
    if p >= alpha:
        return "not significantly different"
    return "better" if difference > 0 else "worse"


def recommendation(
    judged: Judged,
    bands: Mapping[str, Sequence[Band]],
    sizes: Mapping[By, Sequence[Mapping[str, Any]]],
    test: Test,
    alpha: float,
    *,
    unseen: Mapping[str, Band] | None = None,
    choices: Sequence[Mapping[str, Any]] = (),
) -> Recommendation | None:
    """What the rows of the table `choices` say is deployed; without any, by losses to single retrievers and mean regret
    over all aspects of the paper's protocol. `sizes`: the rows of text_sizes and text_lengths; `unseen`: by label
    group, the pairs whose label has no training text."""
    values, against_single, gains = judged
    means = {
        aspect: {cell: value.mean for cell, value in of_aspect.items()}
        for aspect, of_aspect in values.items()
        if aspect.ideal == ALL and any(cell.normalization != SINGLE for cell in of_aspect)
    }
    try:
        least_regret = recommend(means)
    except InputError:
        # No cell has a figure in every aspect.
        return None
    deployed = {
        row["label_group"]: (Cell(*row["strategy"].split("+", 1)), str(row["choice"]))
        for row in choices
        if row["deployed"]
    }
    # Fused as one list, all labels have one model, which also gives the figures of each group.
    usual = deployed.get(ALL, (least_regret.cell, ""))
    standings = []
    gain_of = {gain.aspect: gain for gain in gains}
    # All labels matter most: that is what is deployed.
    for group in sorted({aspect.label_group for aspect in means}, key=lambda group: (group != ALL, group_order(group))):
        aspect = decisive_aspect(aspect for aspect in means if aspect.label_group == group)
        cell, choice = deployed.get(group, usual)
        comparison = against_single.get(aspect, {}).get(cell)
        verdict = verdict_of(comparison, len(values[aspect][cell].folds), test, alpha) if comparison else None
        standing = _standing(aspect, cell, values[aspect], gain_of.get(aspect), comparison, verdict)
        of_bands: dict[By, Sequence[Band]] = {
            "unseen": [unseen[group]] if unseen and group in unseen else (),
            "frequency": bands.get(group, ()),
        }
        slices = [_slices(one, standing, of_bands, sizes, alpha) for one in (cell, standing.best)]
        of_best = slices[1] if standing.best != cell else ()
        safety = safety_of(choices, group)
        standings.append(replace(standing, choice=choice, slices=slices[0], best_slices=of_best, safety=safety))
    winners = {aspect: least_regret.winners[aspect][0] for aspect in distinct_aspects(means)}
    cells = {standing.aspect.label_group: standing.cell for standing in standings}
    regrets = [means[aspect][winner] - means[aspect][cells[aspect.label_group]] for aspect, winner in winners.items()]
    return Recommendation(math.fsum(regrets) / len(regrets), winners, tuple(standings), bool(deployed))


def safety_of(choices: Sequence[Mapping[str, Any]], group: str) -> Safety | None:
    """From the rows of the table `choices`; None where it is not known which bands were lost."""
    tested = [row for row in choices if row["label_group"] == group and row.get("bands_lost") is not None]
    deployed = next((row for row in tested if row["deployed"]), None)
    if deployed is None:
        return None
    lost = tuple(filter(None, deployed["bands_lost"].split(", ")))
    safe = [row for row in tested if not row["bands_lost"]]
    best = max(safe, key=lambda row: row["held_out_value"], default=None) if lost else deployed
    return Safety(
        lost=lost,
        objective=str(deployed["objective"]),
        safe=None if best is None else Cell(*best["strategy"].split("+", 1)),
        cost=0.0 if best is None else deployed["held_out_value"] - best["held_out_value"],
    )


def distinct_aspects(means: Mapping[Aspect, Mapping[Cell, float]]) -> list[Aspect]:
    """Of the aspects in which all cells have the same figures, the first: nDCG@1 is P@1, and says nothing new."""
    first: dict[frozenset[tuple[str, Cell, float]], Aspect] = {}
    for aspect, cells in means.items():
        first.setdefault(frozenset((aspect.label_group, cell, round(mean, 9)) for cell, mean in cells.items()), aspect)
    return list(first.values())


def _slices(
    cell: Cell,
    standing: Standing,
    of_bands: Mapping[By, Sequence[Band]],
    sizes: Mapping[By, Sequence[Mapping[str, Any]]],
    alpha: float,
) -> tuple[Slice, ...]:
    """A cell against each single retriever, by label frequency and by the size of the texts."""
    slices: list[Slice] = []
    for by, bands in of_bands.items():
        if bands:
            deepest = max(next(iter(bands[0].found.values())))
            slices += frequency_slices(bands, cell, list(standing.singles), deepest, alpha, by)
    for by, rows in sizes.items():
        slices += text_slices(rows, standing.aspect, cell, alpha, by)
    return tuple(slices)


def _standing(
    aspect: Aspect,
    cell: Cell,
    values: Mapping[Cell, Value],
    gain: Gain | None,
    comparison: Comparison | None,
    verdict: Verdict | None,
) -> Standing:
    fused = {other: value for other, value in values.items() if other.normalization != SINGLE}
    bold = {shown_cell(other) for other, value in fused.items() if value.bold}
    return Standing(
        aspect=aspect,
        cell=cell,
        value=values[cell],
        best=next(other for other, value in fused.items() if value.best),
        best_value=next(value for value in fused.values() if value.best),
        others_tied=len(bold - {shown_cell(cell)}) if values[cell].bold else 0,
        cells=len(fused),
        results=len({shown_cell(other) for other in fused}),
        singles=gain.singles if gain else {},
        better_single=gain.better_single if gain else None,
        comparison=comparison,
        verdict=verdict,
    )


def rankings(
    values: Mapping[Aspect, Mapping[Cell, Value]],
    pairs: Mapping[Aspect, Mapping[tuple[Cell, Cell], Comparison]],
    alpha: float,
) -> tuple[Ranking, ...]:
    """Mean ranks over the folds in the decisive aspect of each label group; the tests of all texts say which differ."""
    rankings = []
    for group in dict.fromkeys(aspect.label_group for aspect in pairs):
        aspect = decisive_aspect(aspect for aspect in pairs if aspect.label_group == group)
        cells = list(dict.fromkeys(cell for pair in pairs[aspect] for cell in pair))
        folds = {cell: list(values[aspect][cell].folds.values()) for cell in cells}
        tested = {pair: compared.p_queries for pair, compared in pairs[aspect].items()}
        ranked = ranked_groups(folds, {pair: p for pair, p in tested.items() if p is not None}, alpha)
        mean = (
            f"the mean of {len(next(iter(folds.values())))} folds"
            if len(next(iter(folds.values()))) > 1
            else "one fold"
        )
        over = f"{full_metric_name(aspect)}, {mean}. Tested over all texts, every two cells, Holm-corrected."
        ordered = tuple(RankedCell(cell, rank) for cell, rank in ranked.mean_ranks.items())
        rankings.append(Ranking(group, ordered, tuple(ranked.groups), over))
    return tuple(rankings)
