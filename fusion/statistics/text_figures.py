"""The figures of every text under the measures that counts of hits by rank do not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from fusion.kernel.compiled import compiled
from fusion.kernel.hits import Hits
from fusion.metrics import Measure
from fusion.registry import METRICS, Gain, TextMetric
from fusion.statistics.tally import IDEALS, POOLED_UNIT, UNIT, ideals_of, is_pooled
from fusion.types import Array, Floats, Int32s, Ints
from fusion.worth import Gains, JudgedTexts, Worth, mean_above

EACH, FIRST, RUNNING, TERMS = range(4)
COUNTING = {"each": EACH, "first": FIRST, "running": RUNNING}


@dataclass
class ViewTexts:
    """The texts of a batch in one view, and their hits."""

    hits: Hits
    """Labels that count under some measure, text after text."""
    relevant: Sequence[Ints]
    """The number of relevant labels of each text: all, and those of the view."""
    gains: Mapping[Gain, Sequence[Gains]] = field(default_factory=dict)
    """What the relevant labels of each text count: all of them, and those of the view. Not given: one."""
    hit_gains: Mapping[Gain, Floats] = field(default_factory=dict)
    """What each hit counts. Not given: one."""
    nonrelevant: Hits | None = None
    """Candidates that are judged and not relevant, where a measure asks for them."""
    nonrelevant_numbers: Ints | None = None
    """The number of judged labels of each text, in the view, that are not relevant."""

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
        above, beside = _count_above(self.hits.text, self.hits.ranks, tied, first, nonrelevant.ranks)
        return above, beside

    @cached_property
    def first(self) -> Ints:
        """The hits of text t are the rows first[t] to first[t + 1]."""
        return np.searchsorted(self.hits.text, np.arange(len(self.relevant[0]) + 1))

    @property
    def deepest(self) -> int:
        """The last rank that a hit may have."""
        last = self.hits.ranks if self.hits.tied is None else self.hits.ranks + self.hits.tied - 1
        return max(int(last.max(initial=1)), 1)


class Sum(NamedTuple):
    """A sum over hits: some figures are the same sum divided by different numbers."""

    measure: Measure
    ideal: int
    worth: Worth


class TextFigures:
    """The figures of the texts of a batch in one view, for measures with a figure per text."""

    def __init__(self, view: str, measures: Sequence[Measure], texts: ViewTexts) -> None:
        self.texts = texts
        self.aspects = [
            (measure, i) for measure in measures for i, ideal in enumerate(IDEALS) if ideal in ideals_of(measure, view)
        ]
        """A measure, and the number of an ideal."""
        self._sums: list[Sum] = []
        self._source: list[int] = []
        over = []
        for measure, ideal in self.aspects:
            entry = METRICS[measure.metric]
            assert isinstance(entry, TextMetric)
            worth = entry.worth(measure.k or texts.deepest, texts.judged(ideal, entry.gain))
            over.append(np.broadcast_to(np.asarray(worth.over, np.float64), len(texts.relevant[0])))
            same = [s for s, known in enumerate(self._sums) if known.measure == measure]
            if not same or worth.depth is not None or worth.terms is not None:
                same = [len(self._sums)]
                self._sums.append(Sum(measure, ideal, worth))
            self._source.append(same[0])
        self.over: Floats = np.stack(over) if over else np.empty((0, len(texts.relevant[0])))
        self.pooled = np.array([is_pooled(measure) for measure, _ in self.aspects], np.bool_)
        self._scale = np.where(self.pooled, 1 / POOLED_UNIT, 1 / UNIT)

    def of(self, chosen: Ints, group: Ints, sums: Ints) -> Floats:
        """The figures [aspect, text, column] of the chosen texts. They are also added, in units, to
        sums[group of the text, aspect, column]; of a ratio of sums, its numerator."""
        figures = np.empty((len(self.aspects), len(chosen), self.texts.hits.ranks.shape[1]))
        tied = self.texts.hits.tied
        ranks, none = self.texts.hits.ranks, np.empty((0, 0), np.int32)
        common = (figures, sums, chosen, group, self.texts.first, ranks, none if tied is None else tied)
        _add_figures(*common, *self._tables, np.array(self._source, np.int64), self.over, self.pooled, self._scale)
        return figures

    def ideal_sums(self, chosen: Ints) -> Ints:
        """The denominators of the ratios of sums over the chosen texts, in units."""
        whole = np.rint(self.over[:, chosen] * self._scale[:, None]).astype(np.int64)
        return np.where(self.pooled, whole.sum(axis=1), 0)

    @cached_property
    def _tables(self) -> tuple[Floats, Array, Ints, Ints, Floats, Ints, Floats]:
        """Of every sum what a hit is worth by rank, the last rank of each text, how hits count, and their gains; also
        the terms of sums that are given by hit."""
        texts, hits = self.texts, self.texts.hits
        width = 1 + texts.deepest
        by_rank = np.zeros((len(self._sums), width))
        last = np.empty((len(self._sums), len(texts.relevant[0])), np.int64)
        kinds: list[Gain] = ["one", *(kind for kind in texts.hit_gains if kind != "one")]
        counting, gain_row, term_row = [], [], []
        terms: list[Floats] = []
        for s, (measure, _, worth) in enumerate(self._sums):
            depth = min(len(worth.by_rank), width - 1)
            by_rank[s, 1 : depth + 1] = worth.by_rank[:depth]
            last[s] = depth if worth.depth is None else np.minimum(worth.depth, depth)
            counting.append(COUNTING[worth.counts] if worth.terms is None else TERMS)
            entry = METRICS[measure.metric]
            assert isinstance(entry, TextMetric)
            gain_row.append(kinds.index(entry.gain) if entry.gain in kinds else 0)
            term_row.append(len(terms))
            if worth.terms is not None:
                terms.append(worth.terms)
                last[s] = width - 1
        ones = np.ones(len(hits.text))
        gains = np.stack([texts.hit_gains.get(kind, ones) for kind in kinds])
        stacked = np.stack(terms) if terms else np.empty((0, 0, 0))
        return by_rank, last, np.array(counting), np.array(gain_row), gains, np.array(term_row), stacked


@compiled
def _add_figures(  # type: ignore[no-untyped-def]
    figures, sums, texts, group, first, ranks, tied, by_rank, last, counting, gain_row, gains, term_row, terms, source,
    over, pooled, scale,
):  # fmt: skip
    columns = ranks.shape[1]
    longest = 1
    for n in range(texts.size):
        longest = max(longest, first[texts[n] + 1] - first[texts[n]])
    rank = np.empty(longest, np.int64)
    row = np.empty(longest, np.int64)
    total = np.empty(counting.size)
    for n in range(texts.size):
        t = texts[n]
        for c in range(columns):
            size = _sorted_hits(first[t], first[t + 1], ranks, c, rank, row)
            for s in range(counting.size):
                gain = gains[gain_row[s]]
                if counting[s] == TERMS:
                    total[s] = 0.0
                    for i in range(size):
                        if gain[row[i]] != 0.0:
                            total[s] += terms[term_row[s], row[i], c]
                elif tied.size:
                    total[s] = _expected(by_rank[s], last[s, t], counting[s], gain, rank, row, size, tied, c)
                else:
                    total[s] = _total(by_rank[s], last[s, t], counting[s], gain, rank, row, size)
            for a in range(source.size):
                share = total[source[a]] / over[a, t] if over[a, t] > 0.0 else 0.0
                figures[a, n, c] = share
                entered = total[source[a]] if pooled[a] else share
                sums[group[t], a, c] += np.int64(np.rint(entered * scale[a]))


@compiled
def _sorted_hits(begin, end, ranks, column, rank, row):  # type: ignore[no-untyped-def]
    """The ranks of a text's hits in a column, best first, and their rows; the number of those that are retrieved."""
    size = 0
    for j in range(begin, end):
        found = ranks[j, column]
        if found > 0:
            place = size
            while place > 0 and rank[place - 1] > found:
                rank[place] = rank[place - 1]
                row[place] = row[place - 1]
                place -= 1
            rank[place] = found
            row[place] = j
            size += 1
    return size


@compiled
def _total(by_rank, last, counting, gain, rank, row, size):  # type: ignore[no-untyped-def]
    """What the hits of a text are worth."""
    total = 0.0
    number = 0
    for i in range(size):
        if rank[i] > last:
            break
        worth = gain[row[i]]
        if worth == 0.0:
            continue
        number += 1
        worth *= by_rank[rank[i]]
        if counting == FIRST:
            return worth
        total += worth * number if counting == RUNNING else worth
    return total


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
