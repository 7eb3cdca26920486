"""Relevant labels found by label frequency, from the results' tables, and where a cell loses to a single retriever."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fusion.grid import Cell
from fusion.statistics.significance import exact_sign_p, holm, wilson_interval
from jobs.reporting.data import Band, Column, Outcome, Share, Slice
from jobs.results.stored import Results

FEWEST_PAIRS = 30
"""A band with fewer relevant pairs is joined with its neighbour: shares of a handful of pairs say nothing."""


def frequency_bands(results: Results) -> dict[str, tuple[Band, ...]]:
    """By label group, from the rarest labels to the most frequent."""
    tenths: dict[str, dict[int, Band]] = defaultdict(dict)
    for row in results.rows("bands"):
        bands = tenths[row["label_group"]]
        if row["band"] not in bands:
            bands[row["band"]] = Band(row["rarest"], row["commonest"], row["labels"], row["pairs"], {}, {})
        share = Share(round(row["value"] * row["pairs"]), row["value"], row["low"], row["high"])
        bands[row["band"]].found.setdefault(Cell(row["normalization"], row["fusion"]), {})[row["k"]] = share
    for row in results.rows("band_tests"):
        only = tenths[row["label_group"]][row["band"]].only
        key = Cell(row["normalization"], row["fusion"]), row["retriever"]
        only.setdefault(key, {})[row["k"]] = row["only_cell"], row["only_retriever"]
    return {group: tuple(joined([bands[n] for n in sorted(bands)])) for group, bands in tenths.items()}


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
    found: dict[Cell, dict[int, Share]] = {}
    for cell, shares in bands[0].found.items():
        for k in shares:
            hits = sum(band.found[cell][k].hits for band in bands)
            low, high = wilson_interval(np.array([hits]), np.array([pairs]))
            found.setdefault(cell, {})[k] = Share(hits, hits / pairs, float(low[0]), float(high[0]))
    only = {
        key: {k: _summed([band.only[key][k] for band in bands]) for k in counts}
        for key, counts in bands[0].only.items()
    }
    labels = sum(band.labels for band in bands)
    rarest, commonest = min(band.rarest for band in bands), max(band.commonest for band in bands)
    return Band(rarest, commonest, labels, pairs, found, only)


def _summed(counts: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(cell for cell, _ in counts), sum(single for _, single in counts)


def frequency_slices(bands: Sequence[Band], cell: Cell, singles: Sequence[str], k: int, alpha: float) -> list[Slice]:
    """A cell beside each single retriever, band by band, with McNemar's exact test of the pairs that only one finds."""
    slices = []
    for single in singles:
        counts = [band.only.get((cell, single), {}).get(k) for band in bands]
        corrected = corrected_band_p(bands, cell, single, k)
        for i, band in enumerate(bands):
            share, of_single = band.found[cell][k].value, band.found[Cell("single", single)][k].value
            only_cell, only_single = counts[i] or (None, None)
            p = corrected.get(i)
            outcome = _outcome(share - of_single, p, alpha)
            ends = band.rarest, band.commonest, band.labels, band.pairs, k
            slices.append(Slice("frequency", *ends, single, share, of_single, only_cell, only_single, p, outcome))
    return slices


def corrected_band_p(bands: Sequence[Band], cell: Cell, single: str, k: int) -> dict[int, float]:
    """McNemar's p of a cell against a retriever in each band, by the band's number, Holm-corrected over the bands."""
    counts = {i: band.only.get((cell, single), {}).get(k) for i, band in enumerate(bands)}
    return holm({i: _sign_p(*only) for i, only in counts.items() if only is not None})


def _sign_p(only_cell: int, only_single: int) -> float:
    return float(exact_sign_p(np.array([only_cell]), np.array([only_single]))[0])


def text_slices(text_sizes: Sequence[Mapping[str, Any]], column: Column, cell: Cell, alpha: float) -> list[Slice]:
    """A cell beside each single retriever, by the number of relevant labels of the texts."""
    rows = [
        row
        for row in text_sizes
        if (Column(row["label_group"], row["metric"], row["k"], row["ideal"]), row["normalization"], row["fusion"])
        == (column, *cell)
    ]
    slices = []
    for single in dict.fromkeys(row["retriever"] for row in rows):
        of_single = [row for row in rows if row["retriever"] == single]
        tested = {i: row["p"] for i, row in enumerate(of_single) if row["p"] is not None and row["p"] == row["p"]}
        corrected = holm(tested)
        for i, row in enumerate(of_single):
            outcome = _outcome(row["difference"], corrected.get(i), alpha)
            ends = row["fewest"], row["most"], None, row["queries"], row["k"]
            figures = row["value"], row["retriever_value"]
            slices.append(Slice("text labels", *ends, single, *figures, None, None, corrected.get(i), outcome))
    return slices


def _outcome(difference: float, p: float | None, alpha: float) -> Outcome:
    if p is None:
        return "not tested"
    if p >= alpha:
        return "not told apart"
    return "better" if difference > 0 else "worse"
