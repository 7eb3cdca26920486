"""The cell to deploy, where it stands in each label group, and where it loses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fusion.errors import InputError
from fusion.grid import SINGLE, Cell
from fusion.label_groups import ALL
from fusion.statistics.recommendation import recommend
from fusion.statistics.significance import ranked_groups
from jobs.reporting.bands import frequency_slices, text_slices
from jobs.reporting.data import (
    Aspect,
    Band,
    By,
    Comparison,
    Gain,
    Outcome,
    RankedCell,
    Ranking,
    Recommendation,
    Slice,
    Standing,
    Test,
    Value,
    Verdict,
)
from jobs.reporting.formats import measure_name, shown_cell
from jobs.reporting.tables import decisive, group_order


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


def recommendation(
    values: Mapping[Aspect, Mapping[Cell, Value]],
    gains: Sequence[Gain],
    against_single: Mapping[Aspect, Mapping[Cell, Comparison]],
    bands: Mapping[str, Sequence[Band]],
    sizes: Mapping[By, Sequence[Mapping[str, Any]]],
    test: Test,
    alpha: float,
    unseen: Mapping[str, Band] | None = None,
) -> Recommendation | None:
    """By losses to single retrievers and mean regret over all aspects of the paper's protocol. `sizes`: the rows of
    text_sizes and text_lengths; `unseen`: by label group, the pairs whose label has no training text."""
    means = {
        aspect: {cell: value.mean for cell, value in of_aspect.items()}
        for aspect, of_aspect in values.items()
        if aspect.ideal == ALL and any(cell.normalization != SINGLE for cell in of_aspect)
    }
    try:
        chosen = recommend(means)
    except InputError:
        # No cell has a figure in every aspect.
        return None
    standings = []
    gain_of = {gain.aspect: gain for gain in gains}
    # All labels matter most: that is what is deployed.
    for group in sorted({aspect.label_group for aspect in means}, key=lambda group: (group != ALL, group_order(group))):
        aspect = decisive(aspect for aspect in means if aspect.label_group == group)
        gain = gain_of.get(aspect)
        comparison = against_single.get(aspect, {}).get(chosen.cell)
        verdict = verdict_of(comparison, len(values[aspect][chosen.cell].folds), test, alpha) if comparison else None
        standing = _standing(aspect, chosen.cell, values[aspect], gain, comparison, verdict)
        without = [(unseen or {})[group]] if group in (unseen or {}) else []
        slices = {
            cell: (
                *_by_frequency(without, cell, standing, alpha, "unseen"),
                *_by_frequency(bands.get(group, ()), cell, standing, alpha, "frequency"),
                *(one for by, rows in sizes.items() for one in text_slices(rows, aspect, cell, alpha, by)),
            )
            for cell in {chosen.cell, standing.best}
        }
        of_best = slices[standing.best] if standing.best != chosen.cell else ()
        standings.append(replace(standing, slices=slices[chosen.cell], best_slices=of_best))
    winners = {aspect: cells[0] for aspect, cells in chosen.winners.items()}
    return Recommendation(chosen.cell, chosen.mean_regret / 100, winners, tuple(standings))


def _by_frequency(bands: Sequence[Band], cell: Cell, standing: Standing, alpha: float, by: By) -> list[Slice]:
    if not bands:
        return []
    deepest = max(next(iter(bands[0].found.values())))
    return frequency_slices(bands, cell, list(standing.singles), deepest, alpha, by)


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
        cells=len({shown_cell(other) for other in fused}),
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
        aspect = decisive(aspect for aspect in pairs if aspect.label_group == group)
        cells = list(dict.fromkeys(cell for pair in pairs[aspect] for cell in pair))
        folds = {cell: list(values[aspect][cell].folds.values()) for cell in cells}
        tested = {pair: compared.p_queries for pair, compared in pairs[aspect].items()}
        ranked = ranked_groups(folds, {pair: p for pair, p in tested.items() if p is not None}, alpha)
        mean = (
            f"the mean of {len(next(iter(folds.values())))} folds"
            if len(next(iter(folds.values()))) > 1
            else "one fold"
        )
        over = f"{measure_name(aspect)}, {mean}. Tested over all texts, every two cells, Holm-corrected."
        ordered = tuple(RankedCell(cell, rank) for cell, rank in ranked.mean_ranks.items())
        rankings.append(Ranking(group, ordered, tuple(ranked.groups), over))
    return tuple(rankings)
