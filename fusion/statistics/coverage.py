"""What the retrievers' lists hold: overlap, relevant labels found by one or by all, and by how frequent labels are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusion.compiled import compiled
from fusion.grid.hits import Hits
from fusion.kernel.texts import TextBlock, small_numbers
from fusion.labels import ALL
from fusion.metrics import Metric
from fusion.statistics.tally import IDEALS, Counts, hit_weights
from fusion.types import Array, Floats, Ints

BANDS = 10
UNSEEN = BANDS
"""The band of pairs whose label no training text of the fold carries; it stands behind those by frequency."""
FEWEST_PAIRS = 30
"""A band with fewer relevant pairs is joined with its neighbour: shares of a handful of pairs say nothing."""
MOST_MOVED = 8
"""A text of which a column finds more labels of a band than another is counted by how many more, up to this number."""


class Coverage(Counts):
    """Counts by view, over the texts that count there.

    `listed[view, retriever]` candidates; `common[view, r, s]` candidates of both; `texts[view]`.
    `relevant[view]` pairs of text and relevant label; `found[view, retriever]` those listed; `alone[view, retriever]`
    those that only this one lists; `union[view]` those that some retriever lists.
    `reach[view, ideal, m, n]` texts of which m of the n relevant labels are listed, both capped at k.
    `band_pairs[view, band]` relevant pairs, `band_hits[view, band, column, rank - 1]` those with a rank.
    `band_moves[view, band, retriever, c, m, column]` texts of which the fused column has m + 1 labels of the band more
    among its first `cutoffs[c]` than the single retriever; from m = MOST_MOVED on, texts of which it has fewer.
    `label_pairs[view, place]` relevant pairs of watched labels, `label_hits[view, place, column]` those among the first
    `label_cutoff`.
    """

    texts: Ints
    listed: Ints
    common: Ints
    relevant: Ints
    found: Ints
    alone: Ints
    union: Ints
    reach: Ints
    band_pairs: Ints
    band_hits: Ints
    band_moves: Ints
    label_pairs: Ints
    label_hits: Ints

    def __init__(
        self,
        views: Sequence[str],
        retrievers: int,
        columns: int,
        cutoffs: Sequence[int],
        watched: int = 0,
        label_cutoff: int = 1,
    ) -> None:
        """The last `retrievers` of the columns are those of single retrievers. `watched` labels are counted singly."""
        self.views = list(views)
        self.cutoffs = sorted(set(cutoffs))
        self.k = k = self.cutoffs[-1]
        self.label_cutoff = label_cutoff
        v, fused, bands = len(views), columns - retrievers, BANDS + 1
        super().__init__(
            texts=(v,),
            listed=(v, retrievers),
            common=(v, retrievers, retrievers),
            relevant=(v,),
            found=(v, retrievers),
            alone=(v, retrievers),
            union=(v,),
            reach=(v, len(IDEALS), k + 1, k + 1),
            band_pairs=(v, bands),
            band_hits=(v, bands, columns, k),
            band_moves=(v, bands, retrievers, len(self.cutoffs), 2 * MOST_MOVED, fused),
            label_pairs=(v, watched),
            label_hits=(v, watched, columns),
        )

    def add(
        self, view: int, slots: Sequence[str], common: Ints, counted: Array, hits: Hits, relevant: Sequence[Ints]
    ) -> None:
        """Texts that `counted` marks, with the candidates that retrievers share (of `common_candidates`), the hits
        of these texts, and their numbers of relevant labels: all, and of the view."""
        name = self.views[view]
        mine = [s for s, slot in enumerate(slots) if slot == name or (name == ALL and ALL not in slots)]
        shared = np.tensordot(counted, common[:, mine].sum(axis=1), 1)
        self.common[view] += shared.reshape(self.common.shape[1:])
        self.listed[view] = np.diagonal(self.common[view])
        self.texts[view] += int(counted.sum())

        retrieved = [ranks > 0 for ranks in hits.ranks[:, -self.listed.shape[1] :].T]
        by_one = np.sum(retrieved, axis=0, dtype=np.int16) == 1
        self.relevant[view] += int(relevant[1][counted].sum())
        self.found[view] += [np.count_nonzero(by_retriever) for by_retriever in retrieved]
        self.alone[view] += [np.count_nonzero(by_retriever & by_one) for by_retriever in retrieved]
        self.union[view] += len(by_one)
        reached = np.minimum(np.bincount(hits.text, minlength=len(counted)), self.k)[counted]
        for ideal, number in enumerate(relevant):
            place = reached * (self.k + 1) + np.minimum(number[counted], self.k)
            self.reach[view, ideal] += np.bincount(place, minlength=(self.k + 1) ** 2).reshape(self.k + 1, -1)

    def add_bands(self, view: int, pairs: Array, hits: Hits, bands: Array) -> None:
        """The bands of the relevant labels of counted texts, and hits of such texts with the bands of their labels."""
        self.band_pairs[view] += np.bincount(pairs, minlength=BANDS + 1)
        _count_bands(self.band_hits[view], hits.ranks, bands)
        _count_moves(self.band_moves[view], hits.text, hits.ranks, bands, np.array(self.cutoffs))

    def add_labels(self, view: int, pairs: Array, hits: Hits, places: Array) -> None:
        """The places of the relevant labels of counted texts among the watched ones, and those of hits; -1: none."""
        watched = self.label_pairs.shape[1]
        self.label_pairs[view] += np.bincount(pairs[pairs >= 0], minlength=watched)
        _count_labels(self.label_hits[view], hits.ranks, places, self.label_cutoff)

    def found_in_band(self, view: int, band: int) -> Ints:
        """Pairs of a band among the first k of each column: [column, cutoff]."""
        counts: Ints = np.cumsum(self.band_hits[view, band], axis=1)[:, np.array(self.cutoffs) - 1]
        return counts

    def ceiling(self, view: int, ideal: int, metric: Metric) -> float:
        """The figure of a ranking that puts every listed relevant label first."""
        weights: Floats = hit_weights(metric, self.k)
        worth = np.cumsum(weights, axis=0)
        return float((self.reach[view, ideal] * worth).sum() / max(self.texts[view], 1))


def common_candidates(texts: TextBlock) -> Ints:
    """[text, slot, r, s]: the number of candidates that retrievers r and s share; of r and r, those of r."""
    label = small_numbers(texts.label)
    common: Ints = _common(texts.start, texts.stop, label, np.zeros(1 + int(label.max(initial=-1)), np.int32))
    return common


@compiled
def _common(start, stop, label, last_seen):  # type: ignore[no-untyped-def]
    """`last_seen` has room for a mark at every label."""
    texts, retrievers, slots = start.shape
    common = np.zeros((texts, slots, retrievers, retrievers), np.int64)
    visit = np.int32(0)
    for t in range(texts):
        for slot in range(slots):
            for r in range(retrievers):
                common[t, slot, r, r] = stop[t, r, slot] - start[t, r, slot]
                if r == retrievers - 1:
                    break
                visit += np.int32(1)
                for e in range(start[t, r, slot], stop[t, r, slot]):
                    last_seen[label[e]] = visit
                for s in range(r + 1, retrievers):
                    shared = 0
                    for e in range(start[t, s, slot], stop[t, s, slot]):
                        shared += last_seen[label[e]] == visit
                    common[t, slot, r, s] = common[t, slot, s, r] = shared
    return common


@compiled
def _count_bands(counts, ranks, bands):  # type: ignore[no-untyped-def]
    deepest = counts.shape[2]
    for j in range(ranks.shape[0]):
        of_band = counts[bands[j]]
        for column in range(ranks.shape[1]):
            rank = ranks[j, column]
            if 0 < rank <= deepest:
                of_band[column, rank - 1] += 1


@compiled
def _count_moves(moves, text, ranks, bands, cutoffs):  # type: ignore[no-untyped-def]
    """Text by text, by how many labels of a band each fused column differs from each retriever. The inner loops go
    over columns: these are many, and lie side by side. Small numbers are short, so that more of them are dealt with at
    a time: a text has no more hits than the deepest cut-off."""
    number, retrievers, _, sizes, fused = moves.shape
    most = np.int16(sizes // 2)
    hits = np.zeros((number, cutoffs.size, fused + retrievers), np.int16)
    difference = np.empty(fused, np.int16)
    counts = np.zeros(moves.shape, np.int32)
    begin = 0
    while begin < text.size:
        end = begin
        while end < text.size and text[end] == text[begin]:
            rank = ranks[end]
            for c in range(cutoffs.size):
                of_band, cutoff = hits[bands[end], c], np.uint32(cutoffs[c])
                for column in range(rank.size):
                    # Less one, rank 0 is the greatest of all.
                    of_band[column] += np.int16(np.uint32(rank[column]) - np.uint32(1) < cutoff)
            end += 1
        for j in range(begin, end):
            seen = False
            for earlier in range(begin, j):
                seen |= bands[earlier] == bands[j]
            if seen:
                continue
            for c in range(cutoffs.size):
                of_band = hits[bands[j], c]
                for r in range(retrievers):
                    low, high, of_single = np.int16(0), np.int16(0), of_band[fused + r]
                    for column in range(fused):
                        more = np.int16(min(max(np.int16(of_band[column] - of_single), np.int16(-most)), most))
                        difference[column] = more
                        low, high = min(low, more), max(high, more)
                    for size in range(low, high + 1):
                        if size != 0:
                            of_size = counts[bands[j], r, c, size - 1 if size > 0 else most - size - 1]
                            for column in range(fused):
                                of_size[column] += difference[column] == np.int16(size)
                of_band[:] = 0
        begin = end
    moves += counts


@compiled
def _count_labels(counts, ranks, places, cutoff):  # type: ignore[no-untyped-def]
    for j in range(ranks.shape[0]):
        if places[j] >= 0:
            of_label = counts[places[j]]
            for column in range(ranks.shape[1]):
                if 0 < ranks[j, column] <= cutoff:
                    of_label[column] += 1


def joined_bands(bands: Array, counts: Ints) -> Array:
    """The bands of labels, those with fewer than FEWEST_PAIRS pairs joined with the next, and the last ones with the
    one before; numbered from 0 on. `counts` are the pairs of each label."""
    pairs = np.bincount(bands, weights=counts, minlength=BANDS)
    number = np.zeros(len(pairs), np.int8)
    band, collected = 0, 0.0
    for tenth, more in enumerate(pairs):
        number[tenth] = band
        collected += more
        if collected >= FEWEST_PAIRS:
            band, collected = band + 1, 0.0
    # What is left over at the end is too little for a band of its own.
    return np.asarray(np.minimum(number, max(band - 1, 0))[bands])
