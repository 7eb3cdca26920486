"""What the retrievers' lists hold: overlap, relevant labels found by one or by all, and by how frequent labels are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fusion.kernel.blocks import Hits, TextBlock
from fusion.kernel.compiled import compiled
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
    `band_pairs[view, band]` relevant pairs, `band_hits[view, band, column, rank - 1]` those with a rank.
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

    def __init__(self, views: Sequence[str], retrievers: int, columns: int, k: int) -> None:
        """The last `retrievers` of the columns are those of single retrievers."""
        self.views = list(views)
        self.k = k
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
        )

    def add(self, view: int, texts: TextBlock, counted: Array, hits: Hits, relevant: Sequence[Ints]) -> None:
        """Texts that `counted` marks, their hits, and their numbers of relevant labels: all, and of the view."""
        name = self.views[view]
        self.texts[view] += int(counted.sum())
        slots = [s for s, slot in enumerate(texts.slots) if slot == name or (name == ALL and ALL not in texts.slots)]
        label = texts.label
        if label.max(initial=0) >= LARGEST_LABEL:
            label = np.unique(label, return_inverse=True)[1].astype(np.int32)
        common = _common(texts.start[counted][:, :, slots], texts.stop[counted][:, :, slots], label)
        self.common[view] += common
        self.listed[view] += np.diagonal(common)

        here = counted[hits.text]
        retrieved = hits.ranks[here][:, -self.listed.shape[1] :] > 0
        self.relevant[view] += int(relevant[1][counted].sum())
        self.found[view] += retrieved.sum(axis=0)
        self.alone[view] += retrieved[retrieved.sum(axis=1) == 1].sum(axis=0)
        self.union[view] += len(retrieved)
        reached = np.minimum(np.bincount(hits.text[here], minlength=len(counted)), self.k)
        for ideal, number in enumerate(relevant):
            np.add.at(self.reach[view, ideal], (reached[counted], np.minimum(number, self.k)[counted]), 1)

    def add_bands(self, view: int, pairs: Array, hits: Hits, bands: Array) -> None:
        """The bands of the relevant labels of counted texts, and hits of such texts with the bands of their labels."""
        self.band_pairs[view] += np.bincount(pairs, minlength=BANDS)
        _count_bands(self.band_hits[view], hits.ranks, bands)

    def ceiling(self, view: int, ideal: int, measure: Measure) -> float:
        """The figure of a ranking that puts every listed relevant label first."""
        weights: Floats = hit_weights(measure, self.k)
        worth = np.cumsum(weights, axis=0)
        return float((self.reach[view, ideal] * worth).sum() / max(self.texts[view], 1))


@compiled
def _common(start, stop, label):  # type: ignore[no-untyped-def]
    """Candidates that retrievers r and s share, added up over texts and slots."""
    texts, retrievers, slots = start.shape
    common = np.zeros((retrievers, retrievers), np.int64)
    seen = np.full(label.max() + 1 if label.size else 0, -1, np.int64)
    mark = 0
    for t in range(texts):
        for r in range(retrievers):
            for slot in range(slots):
                for e in range(start[t, r, slot], stop[t, r, slot]):
                    seen[label[e]] = mark
            for s in range(r, retrievers):
                for slot in range(slots):
                    for e in range(start[t, s, slot], stop[t, s, slot]):
                        common[r, s] += seen[label[e]] == mark
            mark += 1
    for r in range(retrievers):
        for s in range(r):
            common[r, s] = common[s, r]
    return common


@compiled
def _count_bands(counts, ranks, bands):  # type: ignore[no-untyped-def]
    cutoff = counts.shape[2]
    for j in range(ranks.shape[0]):
        for column in range(ranks.shape[1]):
            rank = ranks[j, column]
            if 0 < rank <= cutoff:
                counts[bands[j], column, rank - 1] += 1
