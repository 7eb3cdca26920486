"""What the retrievers' lists hold: overlap, relevant labels found by one or by all, and by how frequent labels are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusion.kernel.blocks import TextBlock
from fusion.kernel.compiled import compiled
from fusion.kernel.hits import Hits
from fusion.label_groups import ALL
from fusion.metrics import Measure
from fusion.statistics.counts import Counts
from fusion.statistics.tally import IDEALS, hit_weights
from fusion.types import Array, Floats, Ints

BANDS = 10
LARGEST_LABEL = 1_000_000
"""Larger label numbers are numbered anew, so that a table indexed by them stays small."""


class Coverage(Counts):
    """Counts by view, over the texts that count there.

    `listed[view, retriever]` candidates; `common[view, r, s]` candidates of both; `texts[view]`.
    `relevant[view]` pairs of text and relevant label; `found[view, retriever]` those listed; `alone[view, retriever]`
    those that only this one lists; `union[view]` those that some retriever lists.
    `reach[view, ideal, m, n]` texts of which m of the n relevant labels are listed, both capped at k.
    `band_pairs[view, band]` relevant pairs, `band_hits[view, band, column, rank - 1]` those with a rank,
    `band_both[view, band, column, retriever, c]` those that both the column and the single retriever rank among their
    first `cutoffs[c]`, and not both among their first `cutoffs[c - 1]`.
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
    band_both: Ints

    def __init__(self, views: Sequence[str], retrievers: int, columns: int, cutoffs: Sequence[int]) -> None:
        """The last `retrievers` of the columns are those of single retrievers."""
        self.views = list(views)
        self.cutoffs = sorted(set(cutoffs))
        self.k = k = self.cutoffs[-1]
        self._cutoff_of_rank = np.searchsorted(self.cutoffs, np.arange(k + 1))
        v = len(views)
        super().__init__(
            texts=(v,),
            listed=(v, retrievers),
            common=(v, retrievers, retrievers),
            relevant=(v,),
            found=(v, retrievers),
            alone=(v, retrievers),
            union=(v,),
            reach=(v, len(IDEALS), k + 1, k + 1),
            band_pairs=(v, BANDS),
            band_hits=(v, BANDS, columns, k),
            band_both=(v, BANDS, columns, retrievers, len(self.cutoffs)),
        )

    def add(
        self, view: int, slots: Sequence[str], common: Ints, counted: Array, hits: Hits, relevant: Sequence[Ints]
    ) -> None:
        """Texts that `counted` marks, with the candidates that retrievers share (of `common_candidates`), the hits
        of these texts, and their numbers of relevant labels: all, and of the view."""
        name = self.views[view]
        mine = [s for s, slot in enumerate(slots) if slot == name or (name == ALL and ALL not in slots)]
        shared = counted @ common[:, mine].sum(axis=1).reshape(len(common), -1)
        self.common[view] += shared.reshape(self.common.shape[1:])
        self.listed[view] = np.diagonal(self.common[view])
        self.texts[view] += int(counted.sum())

        retrieved = hits.ranks[:, -self.listed.shape[1] :] > 0
        self.relevant[view] += int(relevant[1][counted].sum())
        self.found[view] += retrieved.sum(axis=0)
        self.alone[view] += retrieved[retrieved.sum(axis=1) == 1].sum(axis=0)
        self.union[view] += len(retrieved)
        reached = np.minimum(np.bincount(hits.text, minlength=len(counted)), self.k)[counted]
        for ideal, number in enumerate(relevant):
            place = reached * (self.k + 1) + np.minimum(number[counted], self.k)
            self.reach[view, ideal] += np.bincount(place, minlength=(self.k + 1) ** 2).reshape(self.k + 1, -1)

    def add_bands(self, view: int, pairs: Array, hits: Hits, bands: Array) -> None:
        """The bands of the relevant labels of counted texts, and hits of such texts with the bands of their labels."""
        self.band_pairs[view] += np.bincount(pairs, minlength=BANDS)
        _count_bands(self.band_hits[view], self.band_both[view], hits.ranks, bands, self._cutoff_of_rank)

    def pairs_found(self, view: int, band: int) -> tuple[Ints, Ints]:
        """Pairs of a band among the first k: of each column [column, cutoff], and of both a column and a single
        retriever [column, retriever, cutoff]."""
        of_column = np.cumsum(self.band_hits[view, band], axis=1)[:, np.array(self.cutoffs) - 1]
        return of_column, np.cumsum(self.band_both[view, band], axis=2)

    def ceiling(self, view: int, ideal: int, measure: Measure) -> float:
        """The figure of a ranking that puts every listed relevant label first."""
        weights: Floats = hit_weights(measure, self.k)
        worth = np.cumsum(weights, axis=0)
        return float((self.reach[view, ideal] * worth).sum() / max(self.texts[view], 1))


def common_candidates(texts: TextBlock) -> Ints:
    """[text, slot, r, s]: the number of candidates that retrievers r and s share; of r and r, those of r."""
    label = texts.label
    if label.max(initial=0) >= LARGEST_LABEL:
        label = np.unique(label, return_inverse=True)[1].astype(np.int32)
    common: Ints = _common(texts.start, texts.stop, label, np.zeros(1 + int(label.max(initial=-1)), np.int32))
    return common


@compiled
def _common(start, stop, label, last_seen):  # type: ignore[no-untyped-def]
    """`last_seen` has room for a mark at every label."""
    texts, retrievers, slots = start.shape
    common = np.zeros((texts, slots, retrievers, retrievers), np.int64)
    mark = np.int32(0)
    for t in range(texts):
        for slot in range(slots):
            for r in range(retrievers):
                common[t, slot, r, r] = stop[t, r, slot] - start[t, r, slot]
                if r == retrievers - 1:
                    break
                mark += np.int32(1)
                for e in range(start[t, r, slot], stop[t, r, slot]):
                    last_seen[label[e]] = mark
                for s in range(r + 1, retrievers):
                    shared = 0
                    for e in range(start[t, s, slot], stop[t, s, slot]):
                        shared += last_seen[label[e]] == mark
                    common[t, slot, r, s] = common[t, slot, s, r] = shared
    return common


@compiled
def _count_bands(counts, both, ranks, bands, cutoff_of_rank):  # type: ignore[no-untyped-def]
    deepest = counts.shape[2]
    columns = ranks.shape[1]
    retrievers = both.shape[2]
    for j in range(ranks.shape[0]):
        of_band, both_of_band = counts[bands[j]], both[bands[j]]
        for column in range(columns):
            rank = ranks[j, column]
            if 0 < rank <= deepest:
                of_band[column, rank - 1] += 1
                for r in range(retrievers):
                    other = ranks[j, columns - retrievers + r]
                    if 0 < other <= deepest:
                        both_of_band[column, r, cutoff_of_rank[max(rank, other)]] += 1
