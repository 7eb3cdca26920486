"""The figure of every text under the metrics that counts of hits by rank cannot give."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.grid.hits import Hits
from fusion.metrics import Metric, metric_parts
from fusion.registry import METRICS, Gain, TextMetric
from fusion.statistics.tally import IDEALS, POOLED_UNIT, UNIT, ideals_of, is_pooled
from fusion.types import Array, Floats, Int32s, Ints
from fusion.worth import Gains, JudgedTexts, Worth, mean_above

EACH, DEPTH, TERMS, FIRST, RUNNING = range(5)
"""How the hits of a text add up; in a table of sums, sums of one kind stand together, in this order."""
TEXTS_PER_FLUSH = 64
"""Sums of figures in units are whole numbers below 2^53, which floats hold exactly, as long as the texts are few."""


def add_figures(figures: Floats, totals: Ints, *tables: Array) -> None:
    """Fill in figures [aspect, text, column], and add them in units to totals [group, ideal, sum, column]."""
    _add_figures(figures, totals, *tables)


def count_above(text: Ints, ranks: Int32s, tied: Int32s, first: Ints, others: Int32s) -> tuple[Int32s, Int32s]:
    """How many of the other labels of its text stand above each hit, and share its score (hits x columns). `others`:
    their ranks, those of text t in the rows first[t] to first[t + 1]."""
    above, beside = _count_above(text, ranks, tied, first, others)
    return above, beside


@compiled
def _add_figures(  # type: ignore[no-untyped-def]
    figures, totals, texts, group, first, ranks, tied, by_rank, last, size, gain_row, gains, terms, over, row, pooled,
    scale, place, ideal, listed, depth,
):  # fmt: skip
    """The inner loops go over columns: these are many, and lie side by side. Sum s is total[row[s]], divided: by
    over[s], and where it has a depth also by the number of labels that a column lists down to it."""
    groups, ideals, sums, columns = totals.shape
    longest = 1
    for n in range(texts.size):
        longest = max(longest, first[texts[n] + 1] - first[texts[n]])
    room = (np.empty(longest, np.int64), np.empty(longest, np.int64))
    waiting = np.zeros(totals.shape)
    total = np.empty((by_rank.shape[0], columns))
    for n in range(texts.size):
        t = texts[n]
        total[:] = 0.0
        if tied.size:
            _add_tied(total, first[t], first[t + 1], ranks, tied, by_rank, last[:, t], size, gain_row, gains, room)
        else:
            _add_each(total, first[t], first[t + 1], ranks, by_rank, last[:, t], size, gain_row, gains)
            _add_ordered(total, first[t], first[t + 1], ranks, by_rank, size, gains)
        _add_terms(total, first[t], first[t + 1], ranks, size, gains, terms)
        for i in range(ideals):
            for s in range(sums):
                divisor = over[i, s, t]
                # In the view of all labels nothing is divided under the second ideal.
                if (divisor == 0.0 and depth[s] == 0) or divisor == np.inf:
                    continue
                of_text, of_group = total[row[s]], waiting[group[t], i, s]
                if depth[s] > 0 and not pooled[s]:
                    for c in range(columns):
                        # Of a text without a hit, or even without a list, nothing is added.
                        most = max(divisor + min(listed[t, c], depth[s]), 1.0)
                        of_group[c] += np.rint(of_text[c] * (scale[s] / most))
                    continue
                unit = scale[s] / (1.0 if pooled[s] else divisor)
                for c in range(columns):
                    of_group[c] += np.rint(of_text[c] * unit)
        for a in range(figures.shape[0]):
            divisor, of_text, of_aspect = over[ideal[a], place[a], t], total[row[place[a]]], figures[a, n]
            if depth[place[a]] > 0:
                for c in range(columns):
                    of_aspect[c] = of_text[c] / max(divisor + min(listed[t, c], depth[place[a]]), 1.0)
            elif divisor > 0.0:
                for c in range(columns):
                    of_aspect[c] = of_text[c] / divisor
            else:
                of_aspect[:] = 0.0
        if (n + 1) % TEXTS_PER_FLUSH == 0 or n + 1 == texts.size:
            for g in range(groups):
                for i in range(ideals):
                    for s in range(sums):
                        for c in range(columns):
                            totals[g, i, s, c] += np.int64(waiting[g, i, s, c])
            waiting[:] = 0.0


@compiled
def _add_each(total, begin, end, ranks, by_rank, last, size, gain_row, gains):  # type: ignore[no-untyped-def]
    """Sums in which every hit counts by itself, down to one last rank or to that of the text. Rank 0 is worth 0."""
    plain, deep = size[EACH], size[EACH] + size[DEPTH]
    for j in range(begin, end):
        rank = ranks[j]
        for s in range(deep):
            gain, worth, of_sum = gains[gain_row[s], j], by_rank[s], total[s]
            if gain == 0.0:
                continue
            if s < plain:
                for c in range(rank.size):
                    of_sum[c] += worth[np.uint32(rank[c])] * gain
            else:
                for c in range(rank.size):
                    of_sum[c] += worth[np.uint32(rank[c])] * gain if rank[c] <= last[s] else 0.0


@compiled
def _add_terms(total, begin, end, ranks, size, gains, terms):  # type: ignore[no-untyped-def]
    """Sums over hits that are given term by term."""
    offset = size[EACH] + size[DEPTH]
    for term in range(size[TERMS]):
        for j in range(begin, end):
            if gains[0, j] != 0.0:
                for c in range(ranks.shape[1]):
                    total[offset + term, c] += terms[term, j, c] if ranks[j, c] > 0 else 0.0


@compiled
def _add_ordered(total, begin, end, ranks, by_rank, size, gains):  # type: ignore[no-untyped-def]
    """Sums in which only the first hit counts, or each with the number of hits down to it."""
    first = size[EACH] + size[DEPTH] + size[TERMS]
    running = first + size[FIRST]
    sums = running + size[RUNNING]
    if first == sums:
        return
    columns = ranks.shape[1]
    best = np.zeros(columns, np.int32)
    number = np.empty(columns, np.int32)
    for j in range(begin, end):
        if gains[0, j] == 0.0:
            continue
        rank = ranks[j]
        for c in range(columns):
            ahead = rank[c] > 0 and (best[c] == 0 or rank[c] < best[c])
            best[c] = rank[c] if ahead else best[c]
        if running == sums:
            continue
        number[:] = 1
        for other in range(begin, end):
            if gains[0, other] != 0.0:
                of_other = ranks[other]
                for c in range(columns):
                    number[c] += np.int32(of_other[c] > 0) & np.int32(of_other[c] < rank[c])
        for s in range(running, sums):
            worth, of_sum = by_rank[s], total[s]
            for c in range(columns):
                of_sum[c] += worth[np.uint32(rank[c])] * number[c]
    for s in range(first, running):
        worth, of_sum = by_rank[s], total[s]
        for c in range(columns):
            of_sum[c] = worth[np.uint32(best[c])]


@compiled
def _add_tied(total, begin, end, ranks, tied, by_rank, last, size, gain_row, gains, room):  # type: ignore[no-untyped-def]
    """All these sums as means over the orders of equal scores."""
    rank, row = room
    terms = size[EACH] + size[DEPTH]
    for c in range(ranks.shape[1]):
        hits = _sorted_hits(begin, end, ranks, c, rank, row)
        for s in range(total.shape[0]):
            if terms <= s < terms + size[TERMS]:
                continue
            kind = EACH
            if s >= terms + size[TERMS]:
                kind = FIRST if s < terms + size[TERMS] + size[FIRST] else RUNNING
            total[s, c] = _expected(by_rank[s], last[s], kind, gains[gain_row[s]], rank, row, hits, tied, c)


@compiled
def _sorted_hits(begin, end, ranks, column, rank, row):  # type: ignore[no-untyped-def]
    """The ranks of a text's hits in a column, best first, and their rows; the number of those that are retrieved."""
    size = 0
    for j in range(begin, end):
        hit_rank = ranks[j, column]
        if hit_rank > 0:
            place = size
            while place > 0 and rank[place - 1] > hit_rank:
                rank[place] = rank[place - 1]
                row[place] = row[place - 1]
                place -= 1
            rank[place] = hit_rank
            row[place] = j
            size += 1
    return size


@compiled
def _expected(by_rank, last, counting, gain, rank, row, size, tied, column):  # type: ignore[no-untyped-def]
    """The mean worth over all orders of equal scores (McSherry, Najork: Computing information retrieval performance
    measures efficiently in the presence of tied scores. ECIR 2008)."""
    total = 0.0
    number = 0
    i = 0
    while i < size and rank[i] <= last:
        before = rank[i] - 1
        among = tied[row[i], column]
        gained, hits = 0.0, 0
        while i < size and rank[i] == before + 1:
            worth = gain[row[i]]
            gained += worth
            hits += worth != 0.0
            i += 1
        if hits == 0:
            continue
        # That the first hit is at the next place, so many places after the first of the tied ones.
        chance = hits / among
        for place in range(min(among, last - before)):
            worth = by_rank[before + 1 + place]
            if counting == FIRST:
                total += chance * worth
                chance *= max(among - place - hits, 0) / (among - place - 1) if place + 1 < among else 0.0
            elif counting == RUNNING:
                further = place * (hits - 1) / (among - 1) if among > 1 else 0.0
                total += hits / among * worth * (number + 1 + further)
            else:
                total += gained / among * worth
        if counting == FIRST:
            return total
        number += hits
    return total


@compiled
def _count_above(text, ranks, tied, first, nonrelevant_ranks):  # type: ignore[no-untyped-def]
    above = np.zeros(ranks.shape, np.int32)
    beside = np.zeros(ranks.shape, np.int32)
    for j in range(text.size):
        for n in range(first[text[j]], first[text[j] + 1]):
            for c in range(ranks.shape[1]):
                rank = nonrelevant_ranks[n, c]
                if rank > 0 and ranks[j, c] > 0:
                    above[j, c] += rank < ranks[j, c]
                    if tied.size:
                        beside[j, c] += rank == ranks[j, c]
    return above, beside


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
        above, beside = self._above(nonrelevant)
        return mean_above(above, beside, most[self.hits.text][:, None])

    def _above(self, nonrelevant: Hits) -> tuple[Int32s, Int32s]:
        """How many of them stand above each hit, and share its score (hits x columns)."""
        edges = np.arange(len(self.relevant[0]) + 1)
        first = np.searchsorted(nonrelevant.text, edges)
        none = np.empty((0, 0), np.int32)
        tied = none if self.hits.tied is None else self.hits.tied
        above, beside = count_above(self.hits.text, self.hits.ranks, tied, first, nonrelevant.ranks)
        return above, beside

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
    """A sum over hits. Under the ideals it stands for, it is divided by `over`; infinite: not under this one."""

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
