"""Tonight against the baseline: sums over texts for the gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.grid import SINGLE, Cell
from fusion.metrics import Measure
from fusion.statistics.gate import Change, Sums, change
from fusion.statistics.paired import UNIT
from fusion.types import Ints
from jobs.reporting.data import Aspect
from jobs.reporting.formats import watched_name

CELL = ["normalization", "fusion", "label_group"]
ABSENT = np.iinfo(np.int64).min
"""Stands for a figure that a text does not have."""


class Watched(NamedTuple):
    """A figure that must not fall, and the night it is compared with."""

    dataset: str
    label_group: str
    metric: str
    k: int
    normalization: str
    fusion: str
    against: str

    def __str__(self) -> str:
        aspect = Aspect(self.label_group, self.metric, self.k)
        return watched_name(aspect, Cell(self.normalization, self.fusion))


class FallenText(NamedTuple):
    """A text of which a watched figure fell."""

    text_id: str
    before: float
    now: float


def watched_queries(queries: pa.Table, retrievers: bool) -> pa.Table:
    """The rows of the watched cells, with or without the single retrievers."""
    return queries if retrievers else queries.filter(pc.not_equal(queries["normalization"], SINGLE))


def watched_figures(queries: pa.Table, measures: list[Measure]) -> list[dict[str, Any]]:
    """The watched figures over all texts, with 95% intervals."""
    rows = []
    for cell, texts in _cells(queries).items():
        for measure in measures:
            sums = _sums(_whole(texts[str(measure)]))
            mean = change(sums, sums, sums, 0.0)
            figure = {"metric": measure.metric, "k": measure.k, "mean": mean.difference}
            interval = {"low": mean.low, "high": mean.high, "queries": sums.texts}
            rows.append({**dict(zip(CELL, cell, strict=True)), **figure, **interval})
    return rows


def changes(
    before: pa.Table | None, tonight: pa.Table, measures: list[Measure], dataset: str, against: str, tolerance: float
) -> dict[Watched, Change]:
    """Every watched figure that the baseline has, too."""
    compared: dict[Watched, Change] = {}
    for cell, measure, was, now, matched in _pairs(before, tonight, measures):
        both = _common(was, now, matched)
        a, b = _sums(was), _sums(now)
        if a.texts and b.texts:
            group, name = cell[2], Cell(cell[0], cell[1])
            watched = Watched(dataset, group, measure.metric, measure.k, name.normalization, name.fusion, against)
            compared[watched] = change(a, b, _sums(both[1] - both[0]), tolerance, _sums(both[0]))
    return compared


def fallen_texts(before: pa.Table | None, tonight: pa.Table, watched: Watched, most: int) -> list[FallenText]:
    """The texts of which a watched figure fell most."""
    measure = Measure(watched.metric, watched.k)
    wanted = (watched.normalization, watched.fusion, watched.label_group)
    for cell, _, was, now, matched in _pairs(before, tonight, [measure]):
        if cell != wanted:
            continue
        here = np.flatnonzero((matched >= 0) & (now != ABSENT))
        here = here[was[matched[here]] != ABSENT]
        lost = now[here] - was[matched[here]]
        order = here[np.argsort(lost, kind="stable")][:most]
        ids = _cells(tonight)[cell]["text_id"]
        return [
            FallenText(ids[int(n)].as_py(), float(was[matched[n]] * UNIT), float(now[n] * UNIT))
            for n in order
            if now[n] < was[matched[n]]
        ]
    return []


def _pairs(
    before: pa.Table | None, tonight: pa.Table, measures: list[Measure]
) -> Iterator[tuple[tuple[str, str, str], Measure, Ints, Ints, Ints]]:
    """Of every cell and measure that both nights have: the figures before and now, and for each text of now its place
    among those before, -1 if it was not there."""
    if before is None:
        return
    known = [measure for measure in measures if str(measure) in before.column_names]
    texts_before = _cells(before)
    for cell, texts in _cells(tonight).items():
        if cell not in texts_before or not known:
            continue
        matched = _matched(texts_before[cell], texts)
        for measure in known:
            yield cell, measure, _whole(texts_before[cell][str(measure)]), _whole(texts[str(measure)]), matched


def _matched(before: pa.Table, tonight: pa.Table) -> Ints:
    """A text whose judgement has changed counts as another text: its figure says nothing about the code. Where the
    baseline does not know how its texts were judged, their ids decide."""
    nights = [before["text_id"].cast(pa.string()), tonight["text_id"].cast(pa.string())]
    if before["judgement"].null_count < len(before):
        nights = [
            pc.binary_join_element_wise(ids, night["judgement"].cast(pa.string()), "\n", null_handling="replace")
            for ids, night in zip(nights, (before, tonight), strict=True)
        ]
    places = pc.index_in(nights[1], value_set=nights[0].combine_chunks())
    matched: Ints = pc.fill_null(places, -1).to_numpy().astype(np.int64)
    return matched


def _common(was: Ints, now: Ints, matched: Ints) -> tuple[Ints, Ints]:
    """The figures of the texts that both nights have."""
    here = matched >= 0
    a, b = was[matched[here]], now[here]
    both = (a != ABSENT) & (b != ABSENT)
    return a[both], b[both]


def _cells(queries: pa.Table) -> dict[tuple[str, str, str], pa.Table]:
    """The rows of each cell and label group, in the order of their names."""
    cells = queries.select(CELL).group_by(CELL).aggregate([]).sort_by([(name, "ascending") for name in CELL])
    rows = {}
    for cell in zip(*(cells[name].to_pylist() for name in CELL), strict=True):
        chosen = pc.and_(
            pc.and_(pc.equal(queries[CELL[0]], cell[0]), pc.equal(queries[CELL[1]], cell[1])),
            pc.equal(queries[CELL[2]], cell[2]),
        )
        rows[cell] = queries.filter(chosen)
    return rows


def _whole(figures: pa.ChunkedArray) -> Ints:
    """Figures as whole numbers of a unit, so that sums do not depend on the order of the texts."""
    scaled = pc.round(pc.divide(figures, UNIT), round_mode="half_towards_infinity")
    whole: Ints = pc.fill_null(scaled.cast(pa.int64()), ABSENT).to_numpy()
    return whole


def _sums(whole: Ints) -> Sums:
    known = whole[whole != ABSENT]
    squares = int(np.dot(known, known))
    return Sums(len(known), int(known.sum()) * UNIT, squares * UNIT**2)
