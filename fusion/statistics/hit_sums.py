"""Sums over the hits of single texts, in compiled loops: what text_figures asks for."""

from __future__ import annotations

import numpy as np

from fusion.compiled import compiled
from fusion.types import Array, Floats, Int32s, Ints

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
    above, level = _count_above(text, ranks, tied, first, others)
    return above, level


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
        # The chance that the first hit is at this place among the tied ones.
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
    level = np.zeros(ranks.shape, np.int32)
    for j in range(text.size):
        for n in range(first[text[j]], first[text[j] + 1]):
            for c in range(ranks.shape[1]):
                rank = nonrelevant_ranks[n, c]
                if rank > 0 and ranks[j, c] > 0:
                    above[j, c] += rank < ranks[j, c]
                    if tied.size:
                        level[j, c] += rank == ranks[j, c]
    return above, level
