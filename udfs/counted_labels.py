"""Which labels are counted together, and which singly, beside the hits of all texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.label_groups import ALL, frequency_bands
from fusion.statistics.coverage import BANDS, UNSEEN, joined_bands
from fusion.types import Array, Int32s, Ints
from udfs.label_ids import number_labels
from udfs.list_codes import LabelGroups

WATCHED = 1024
"""Labels that are counted singly in each view, the most frequent ones: a label changes by no more pairs than it has."""


@dataclass(frozen=True)
class CountedLabels:
    """The frequency band and the place among the watched labels of every judged label, by view."""

    bands: Mapping[str, LabelGroups]
    watched: Mapping[str, LabelGroups]
    unseen: Mapping[int, pa.Array] | None = None
    """By fold, the labels of test texts that no training text carries; None where training texts are not known."""

    @property
    def most_watched(self) -> int:
        return max((len(watched.ids) for watched in self.watched.values()), default=0)

    def bands_of(self, view: str, labels: pa.Array, fold: Int32s) -> Array:
        """The band of each label of a text that the fold tests."""
        bands = self.bands[view].lookup(labels)
        for number, unseen in (self.unseen or {}).items():
            if len(unseen) and (fold == number).any():
                among = pc.is_in(labels, value_set=unseen.cast(labels.type)).to_numpy(zero_copy_only=False)
                bands = np.where(among & (fold == number), np.int8(UNSEEN), bands)
        return bands


def counted_labels(
    ids: pa.Array,
    counts: Ints,
    views: tuple[str, ...],
    groups: LabelGroups | None,
    unseen: Mapping[int, pa.Array] | None,
) -> CountedLabels:
    """From how many texts carry each label."""
    numbers = number_labels(ids)[0]
    tenths = frequency_bands(numbers, counts, BANDS)
    group_of = groups.lookup(ids) if groups else None
    bands, watched = {}, {}
    for view in views:
        inside = np.ones(len(ids), np.bool_)
        if view != ALL and groups is not None and group_of is not None:
            inside = np.asarray(group_of == groups.names.index(view))
        mine = np.flatnonzero(inside)
        bands[view] = LabelGroups(
            tuple(map(str, range(BANDS))), ids.take(pa.array(mine)), joined_bands(tenths[mine], counts[mine])
        )
        # The most frequent first; of equal ones, the lower id.
        order = np.lexsort((numbers[mine], -counts[mine]))[:WATCHED]
        watched[view] = LabelGroups((), ids.take(pa.array(mine[order])), np.arange(len(order), dtype=np.int16))
    return CountedLabels(bands, watched, unseen)
