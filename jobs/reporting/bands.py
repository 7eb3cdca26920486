"""Relevant labels found by label frequency, from the results' tables, and where a cell loses to a single retriever."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fusion.grid import SINGLE, Cell
from fusion.statistics.coverage import FEWEST_PAIRS
from fusion.statistics.significance import holm, wilson_interval
from jobs.reporting.data import Aspect, Band, BandTest, By, Outcome, Share, Slice
from jobs.results.stored import Results


def frequency_bands(results: Results) -> dict[str, tuple[Band, ...]]:
    """By label group, from the rarest labels to the most frequent."""
    return {
        group: tuple(joined([bands[number] for number in sorted(bands) if number]))
        for group, bands in _numbered(results).items()
    }


def unseen_labels(results: Results) -> dict[str, Band] | None:
    """By label group, the pairs whose label has no training text; None where the results do not know."""
    if not results.knows_training:
        return None
    return {group: bands[0] for group, bands in _numbered(results).items() if 0 in bands}


def _numbered(results: Results) -> dict[str, dict[int, Band]]:
    """The bands of each label group by their numbers."""
    groups: dict[str, dict[int, Band]] = defaultdict(dict)
    for row in results.rows("bands"):
        bands = groups[row["label_group"]]
        if row["band"] not in bands:
            bands[row["band"]] = Band(row["rarest"], row["commonest"], row["labels"], row["pairs"], {}, {})
        share = Share(round(row["value"] * row["pairs"]), row["value"], row["low"], row["high"])
        bands[row["band"]].found.setdefault(Cell(row["normalization"], row["fusion"]), {})[row["k"]] = share
    for row in results.rows("band_tests"):
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
    """A cell beside each single retriever, band by band."""
    slices = []
    for single in singles:
        corrected = corrected_band_p(bands, cell, single, k)
        for i, band in enumerate(bands):
            share, of_single = band.found[cell][k].value, band.found[Cell(SINGLE, single)][k].value
            tested = band.tests.get((cell, single), {}).get(k)
            more, fewer = (tested.more if tested else None), (tested.fewer if tested else None)
            outcome = _outcome(share - of_single, corrected.get(i), alpha)
            ends = band.rarest, band.commonest, band.labels, band.pairs, k
            slices.append(Slice(by, *ends, single, share, of_single, more, fewer, corrected.get(i), outcome))
    return slices


def corrected_band_p(bands: Sequence[Band], cell: Cell, single: str, k: int) -> dict[int, float]:
    """p of a cell against a retriever in each band, by the band's number, Holm-corrected over the bands."""
    tests = {i: band.tests.get((cell, single), {}).get(k) for i, band in enumerate(bands)}
    return holm({i: test.p for i, test in tests.items() if test is not None})


def text_slices(
    sizes: Sequence[Mapping[str, Any]], aspect: Aspect, cell: Cell, alpha: float, by: By = "text labels"
) -> list[Slice]:
    """A cell beside each single retriever, by the number of relevant labels or of words of the texts."""
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
            outcome = _outcome(row["difference"], corrected.get(i), alpha)
            ends = row["fewest"], row["most"], None, row["queries"], row["k"]
            figures = row["value"], row["retriever_value"]
            slices.append(Slice(by, *ends, single, *figures, None, None, corrected.get(i), outcome))
    return slices


def _outcome(difference: float, p: float | None, alpha: float) -> Outcome:
    if p is None:
        return "not tested"
    if p >= alpha:
        return "not told apart"
    return "better" if difference > 0 else "worse"
