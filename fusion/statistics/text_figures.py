"""The figure of every text under the metrics that counts of hits by rank cannot give."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from fusion.grid.hits import Hits
from fusion.metrics import Metric, metric_parts
from fusion.registry import METRICS, Gain, TextMetric
from fusion.statistics.hit_sums import DEPTH, EACH, FIRST, RUNNING, TERMS, add_figures, count_above
from fusion.statistics.tally import IDEALS, POOLED_UNIT, UNIT, ideals_of, is_pooled
from fusion.types import Array, Floats, Int32s, Ints
from fusion.worth import Gains, JudgedTexts, Worth, mean_above


@dataclass
class ViewTexts:
    """The texts of a batch in one view, and their hits."""

    hits: Hits
    """Labels that count under some metric, text after text."""
    relevant: Sequence[Ints]
    """The number of relevant labels of each text: all, and those of the view."""
    gains: Mapping[Gain, Sequence[Gains]] = field(default_factory=dict)
    """What the relevant labels of each text count: all of them, and those of the view. Not given: one."""
    hit_gains: Mapping[Gain, Floats] = field(default_factory=dict)
    """What each hit counts. Not given: one."""
    nonrelevant: Hits | None = None
    """Candidates that are judged and not relevant, where a metric asks for them."""
    nonrelevant_numbers: Ints | None = None
    """The number of judged labels of each text, in the view, that are not relevant."""
    count_listed: Callable[[], Int32s] | None = None
    """Counts the labels that each column lists of each text [text, column], where a metric asks for them."""

    def judged(self, ideal: int, gain: Gain) -> JudgedTexts:
        """What a metric sees."""
        gains = self.gains[gain][ideal] if gain in self.gains else None
        above = None if self.nonrelevant is None else partial(self._share_above, self.nonrelevant)
        return JudgedTexts(self.relevant[ideal], gains, self.nonrelevant_numbers, above)

    def _share_above(self, nonrelevant: Hits, most: Ints) -> Floats:
        above, level = self._above(nonrelevant)
        return mean_above(above, level, most[self.hits.text][:, None])

    def _above(self, nonrelevant: Hits) -> tuple[Int32s, Int32s]:
        """How many of them stand above each hit, and share its score (hits x columns)."""
        edges = np.arange(len(self.relevant[0]) + 1)
        first = np.searchsorted(nonrelevant.text, edges)
        none = np.empty((0, 0), np.int32)
        tied = none if self.hits.tied is None else self.hits.tied
        above, level = count_above(self.hits.text, self.hits.ranks, tied, first, nonrelevant.ranks)
        return above, level

    @cached_property
    def first(self) -> Ints:
        """The hits of text t are the rows first[t] to first[t + 1]."""
        return np.searchsorted(self.hits.text, np.arange(len(self.relevant[0]) + 1))

    @cached_property
    def deepest(self) -> int:
        """The last rank that a hit may have."""
        last = self.hits.ranks if self.hits.tied is None else self.hits.ranks + self.hits.tied - 1
        return max(int(last.max(initial=1)), 1)


class Sum(NamedTuple):
    """A sum over hits. Under each of its ideals, it is divided by `over`; infinite: not under this one."""

    metric: Metric
    worth: Worth
    over: list[Floats]

    @property
    def kind(self) -> int:
        if self.worth.terms is not None:
            return TERMS
        if self.worth.depth is not None:
            return DEPTH
        return {"each": EACH, "first": FIRST, "running": RUNNING}[self.worth.counts]

    @property
    def gain(self) -> Gain:
        entry = METRICS[self.metric.name]
        assert isinstance(entry, TextMetric)
        return entry.gain

    @property
    def before_division(self) -> Hashable:
        """Equal for sums that differ only in what they are divided by, as recall and F1."""
        own = id(self.worth) if self.kind in (DEPTH, TERMS) else None
        return self.kind, self.gain, np.asarray(self.worth.by_rank, np.float64).tobytes(), own


def _aspects(view: str, metrics: Sequence[Metric]) -> list[tuple[Metric, int]]:
    """Every metric with the number of each ideal under which its figures differ."""
    return [(metric, i) for metric in metrics for i, ideal in enumerate(IDEALS) if ideal in ideals_of(metric, view)]


class TextFigures:
    """The figures of the texts of a batch in one view, for metrics with a figure per text."""

    def __init__(self, view: str, metrics: Sequence[Metric], texts: ViewTexts) -> None:
        self.texts = texts
        self.aspects = _aspects(view, metrics)
        """A metric, and the number of an ideal."""
        self.parts = _aspects(view, metric_parts(metrics))
        """The same of what is counted, the parts of means over cut-offs."""
        sums: dict[tuple[Metric, int], Sum] = {}
        nothing = np.full(len(texts.relevant[0]), np.inf)
        for metric, ideal in self.parts:
            entry = METRICS[metric.name]
            assert isinstance(entry, TextMetric)
            worth = entry.worth(metric.k or texts.deepest, texts.judged(ideal, entry.gain))
            alike = worth.depth is None and worth.terms is None
            # Both ideals divide the same sum, unless they differ in which hits count.
            key = (metric, 0 if alike else ideal)
            sums.setdefault(key, Sum(metric, worth, [nothing] * len(IDEALS))).over[ideal] = np.broadcast_to(
                np.asarray(worth.over, np.float64), len(texts.relevant[0])
            )
        self._sums = list(sums.values())
        number = {key: n for n, key in enumerate(sums)}
        places = [number.get((metric, ideal), number[metric, 0]) for metric, ideal in self.parts]
        self._place = np.array(places, np.int64).reshape(-1)
        distinct: dict[Hashable, Sum] = {}
        for summed in sorted(self._sums, key=lambda summed: summed.kind):
            distinct.setdefault(summed.before_division, summed)
        rows = {key: row for row, key in enumerate(distinct)}
        self._undivided = list(distinct.values())
        self._row = np.array([rows[summed.before_division] for summed in self._sums], np.int64)
        self._ideal = np.array([ideal for _, ideal in self.parts], np.int64)
        self._depth = np.array([summed.worth.listed for summed in self._sums], np.int64)
        self._pooled = np.array([is_pooled(summed.metric) for summed in self._sums], np.bool_)
        self._scale = np.where(self._pooled, 1 / POOLED_UNIT, 1 / UNIT)

    def of(self, chosen: Ints, group: Ints, sums: Ints, keep: bool = True) -> Floats:
        """The figures [aspect, text, column] of the chosen texts; none unless they are to be kept. Those of the parts
        are also added, in units, to sums[group of the text, part, column]; of a ratio of sums, its numerator."""
        hits = self.texts.hits
        columns = hits.ranks.shape[1]
        figures = np.empty((len(self.parts) if keep else 0, len(chosen), columns))
        totals = np.zeros((len(sums), len(IDEALS), len(self._sums), columns), np.int64)
        tied = np.empty((0, 0), np.int32) if hits.tied is None else hits.tied
        add_figures(
            *(figures, totals, chosen, group, self.texts.first, hits.ranks, tied, *self._tables),
            *(self._over, self._row, self._pooled, self._scale, self._place, self._ideal, self._listed, self._depth),
        )
        sums += totals[:, self._ideal, self._place]
        return self._averaged(figures) if keep and self.parts != self.aspects else figures

    def _averaged(self, figures: Floats) -> Floats:
        """From the figures of the parts to those of the metrics."""
        place = {part: p for p, part in enumerate(self.parts)}
        means = [figures[[place[part, ideal] for part in metric.parts]].mean(axis=0) for metric, ideal in self.aspects]
        return np.stack(means)

    def ideal_sums(self, chosen: Ints) -> Ints:
        """The denominators [part, column] of the ratios of sums over the chosen texts, in units."""
        sums = np.zeros((len(self.parts), self.texts.hits.ranks.shape[1]), np.int64)
        for a in np.flatnonzero(self._pooled[self._place]):
            over = self._over[self._ideal[a], self._place[a], chosen]
            sums[a] = np.rint(over / POOLED_UNIT).astype(np.int64).sum()
            if depth := self._depth[self._place[a]]:
                sums[a] += np.minimum(self._listed[chosen], depth).sum(axis=0) * round(1 / POOLED_UNIT)
        return sums

    @cached_property
    def _listed(self) -> Int32s:
        """How many labels each column lists [text, column]; nothing where no metric asks."""
        if not self._depth.any():
            return np.empty((0, 0), np.int32)
        assert self.texts.count_listed is not None
        return self.texts.count_listed()

    @cached_property
    def _over(self) -> Floats:
        """[ideal, sum, text]: what the sums are divided by."""
        shape = (len(IDEALS), len(self._sums), len(self.texts.relevant[0]))
        return np.array([[summed.over[i] for summed in self._sums] for i in range(len(IDEALS))]).reshape(shape)

    @cached_property
    def _tables(self) -> tuple[Floats, Array, Ints, Ints, Floats, Floats]:
        """Of the sums before division: what a hit is worth [sum, rank], the last rank [sum, text] of those that have
        one per text, how many there are of each kind, the row of their gains, the gains, and the terms of those that
        are given by hit."""
        texts, hits = self.texts, self.texts.hits
        by_rank = np.zeros((len(self._undivided), 1 + texts.deepest))
        last = np.zeros((len(self._undivided), len(texts.relevant[0])), np.int64)
        kinds: list[Gain] = ["one", *(kind for kind in texts.hit_gains if kind != "one")]
        gain_row = np.zeros(len(self._undivided), np.int64)
        terms: list[Floats] = []
        for n, summed in enumerate(self._undivided):
            depth = min(len(summed.worth.by_rank), texts.deepest)
            by_rank[n, 1 : depth + 1] = summed.worth.by_rank[:depth]
            last[n] = depth if summed.worth.depth is None else np.minimum(summed.worth.depth, depth)
            gain_row[n] = kinds.index(summed.gain) if summed.gain in kinds else 0
            if summed.worth.terms is not None:
                terms.append(summed.worth.terms)
        ones = np.ones(len(hits.text))
        gains = np.stack([texts.hit_gains.get(kind, ones) for kind in kinds])
        stacked = np.stack(terms) if terms else np.empty((0, 0, 0))
        size = np.bincount([summed.kind for summed in self._undivided], minlength=RUNNING + 1).astype(np.int64)
        return by_rank, last, size, gain_row, gains, stacked
