"""Tonight against the baseline: sums over texts for the gate, and why a figure could not be compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.cells import SINGLE
from fusion.metrics import Metric
from fusion.statistics.gate import Change, Sums, change
from fusion.statistics.paired import UNIT
from fusion.types import Bools, Ints
from jobs.nights.changes import (
    DROPPED,
    EMPTY,
    LOST,
    NEW_CELL,
    NEW_GROUP,
    NEW_METRIC,
    UNTESTED,
    ComparedFigure,
    Figure,
    UncomparedFigure,
)

CELL = ["normalization", "fusion", "label_group"]
ABSENT = np.iinfo(np.int64).min
"""The value of a figure that a text does not have."""
Texts = Mapping[Figure, int]
"""The number of texts by figure."""


class Match(NamedTuple):
    """Which texts two nights have in common."""

    places: Ints
    """For each text of tonight its place among those before, -1 if it was not there."""
    refolded: Bools
    """Whether another fold tested it then."""


class FallenText(NamedTuple):
    """A text of which a watched figure fell."""

    text_id: str
    before: float
    now: float


def watched_queries(queries: pa.Table, retrievers: bool) -> pa.Table:
    """The rows of the watched cells, with or without the single retrievers."""
    return queries if retrievers else queries.filter(pc.not_equal(queries["normalization"], SINGLE))


def watched_figures(queries: pa.Table, metrics: list[Metric]) -> list[dict[str, Any]]:
    """The watched figures over all texts, with 95% intervals."""
    rows = []
    for cell, texts in _cells(queries).items():
        for metric in metrics:
            sums = _sums(_whole(texts[str(metric)]))
            mean = change(sums, sums, sums, 0.0)
            figure = {"metric": metric.name, "k": metric.k, "mean": mean.difference}
            interval = {"low": mean.low, "high": mean.high, "queries": sums.texts}
            rows.append({**dict(zip(CELL, cell, strict=True)), **figure, **interval})
    return rows


def compare(
    before: pa.Table | None,
    recorded: pa.Table | None,
    tonight: pa.Table,
    metrics: list[Metric],
    against: str,
    tolerance: float,
) -> tuple[list[ComparedFigure], list[UncomparedFigure]]:
    """Tonight against an earlier night: the changes of the figures, and the reasons why others were not compared.

    `before` and `recorded` are the rows of that night in the tables `query_figures` and `watched`, if there are any.
    """
    changed = changes(before, tonight, metrics, tolerance)
    then = {Figure.of(row): row["queries"] for row in (recorded.to_pylist() if recorded is not None else [])}
    now, left = (_texts(queries, metrics) for queries in (tonight, before))
    reasons = uncompared(now, then, left, changed)
    return (
        [ComparedFigure(figure, against, moved) for figure, moved in changed.items()],
        [UncomparedFigure(figure, against, reason, changed.get(figure)) for figure, reason in reasons.items()],
    )


def changes(
    before: pa.Table | None, tonight: pa.Table, metrics: list[Metric], tolerance: float
) -> dict[Figure, Change]:
    """Every watched figure that the baseline has, too."""
    compared: dict[Figure, Change] = {}
    for cell, metric, was, now, match in _pairs(before, tonight, metrics):
        both = _common(was, now, match.places)
        a, b = _sums(was), _sums(now)
        if a.texts and b.texts:
            moved = change(a, b, _sums(both[1] - both[0]), tolerance, _sums(both[0]))
            other_folds = int((match.refolded & (now != ABSENT)).sum()) if moved.paired else 0
            compared[_figure(cell, metric)] = moved._replace(other_folds=other_folds)
    return compared


def _texts(queries: pa.Table | None, metrics: list[Metric]) -> Texts:
    """How many texts have each of the figures."""
    if queries is None:
        return {}
    there = [metric for metric in metrics if str(metric) in queries.column_names]
    counts = queries.group_by(CELL).aggregate([(str(metric), "count") for metric in there])
    return {
        _figure(tuple(row[name] for name in CELL), metric): row[f"{metric}_count"]
        for row in counts.to_pylist()
        for metric in there
    }


def uncompared(tonight: Texts, then: Texts, left: Texts, compared: Mapping[Figure, Change]) -> dict[Figure, str]:
    """The figures of two nights that could not be compared, each with the reason.

    `tonight` and `then` have the texts of each figure as the two nights counted them, `left` the texts of the earlier
    night that the history still has rows of.
    """
    reasons = {}
    for figure in dict.fromkeys([*tonight, *then]):
        texts = left.get(figure, 0)
        if figure not in tonight:
            reasons[figure] = DROPPED
        elif texts < then.get(figure, 0) or not (then or any(left.values())):
            reasons[figure] = LOST
        elif figure not in then and not texts:
            reasons[figure] = _what_is_new(figure, then)
        elif figure not in compared:
            reasons[figure] = EMPTY
        elif compared[figure].untested:
            reasons[figure] = UNTESTED
    return reasons


def _what_is_new(figure: Figure, then: Texts) -> str:
    if all((other.metric, other.k) != (figure.metric, figure.k) for other in then):
        return NEW_METRIC
    return NEW_CELL if any(other.label_group == figure.label_group for other in then) else NEW_GROUP


def _figure(cell: tuple[str, ...], metric: Metric) -> Figure:
    return Figure.of({**dict(zip(CELL, cell, strict=True)), "metric": metric.name, "k": metric.k})


def fallen_texts(before: pa.Table | None, tonight: pa.Table, figure: Figure, most: int) -> list[FallenText]:
    """The texts of which a watched figure fell most."""
    of_figure = (figure.normalization, figure.fusion, figure.label_group)
    for cell, _, was, now, (matched, _) in _pairs(before, tonight, [figure.metric_at_k]):
        if cell != of_figure:
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
    before: pa.Table | None, tonight: pa.Table, metrics: list[Metric]
) -> Iterator[tuple[tuple[str, str, str], Metric, Ints, Ints, Match]]:
    """Of every cell and metric that both nights have: the figures before and now, and the texts in common."""
    if before is None:
        return
    in_both = [metric for metric in metrics if str(metric) in before.column_names]
    texts_before = _cells(before)
    for cell, texts in _cells(tonight).items():
        if cell not in texts_before or not in_both:
            continue
        match = _matched(texts_before[cell], texts)
        for metric in in_both:
            yield cell, metric, _whole(texts_before[cell][str(metric)]), _whole(texts[str(metric)]), match


def _matched(before: pa.Table, tonight: pa.Table) -> Match:
    """A text is compared with itself in the same fold. Where the folds are different, it is compared all the same if
    each night tested it once. A text whose judgement has changed counts as another text: its figure says nothing about
    the code."""
    places = _places(*(_joined(night, ["fold", "judgement", "text_id"]) for night in (before, tonight)))
    was, now = (_joined(night, ["judgement", "text_id"]) for night in (before, tonight))
    refolded = (places < 0) & _once(was, now) & _once(now, now)
    return Match(np.where(refolded, _places(was, now), places), refolded)


def _joined(night: pa.Table, names: list[str]) -> pa.ChunkedArray:
    columns = [night[name].cast(pa.string()) for name in names]
    return pc.binary_join_element_wise(*columns, "\n", null_handling="replace")


def _places(values: pa.ChunkedArray, keys: pa.ChunkedArray) -> Ints:
    """The place of each key among the values, -1 for a key that is not there."""
    places: Ints = pc.fill_null(pc.index_in(keys, value_set=values.combine_chunks()), -1).to_numpy().astype(np.int64)
    return places


def _once(values: pa.ChunkedArray, keys: pa.ChunkedArray) -> Bools:
    """Whether each key is exactly once among the values."""
    counts = pc.value_counts(values)
    single = counts.field("values").filter(pc.equal(counts.field("counts"), 1))
    once: Bools = pc.is_in(keys, value_set=single).to_numpy()
    return once


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
        of_cell = pc.and_(
            pc.and_(pc.equal(queries[CELL[0]], cell[0]), pc.equal(queries[CELL[1]], cell[1])),
            pc.equal(queries[CELL[2]], cell[2]),
        )
        rows[cell] = queries.filter(of_cell)
    return rows


def _whole(figures: pa.ChunkedArray) -> Ints:
    """Figures as whole numbers of a unit, so that sums do not depend on the order of the texts."""
    scaled = pc.round(pc.divide(figures, UNIT), round_mode="half_towards_infinity")
    whole: Ints = pc.fill_null(scaled.cast(pa.int64()), ABSENT).to_numpy()
    return whole


def _sums(whole: Ints) -> Sums:
    figures = whole[whole != ABSENT]
    squares = int(np.dot(figures, figures))
    return Sums(len(figures), int(figures.sum()) * UNIT, squares * UNIT**2)
