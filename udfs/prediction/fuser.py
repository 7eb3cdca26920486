"""The lists of new texts, fused as lists that were written are fused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from fusion.retrieval.ranked import Ranked
from udfs.fuse import FusionPlan, fuse_lists
from udfs.list_arrays import LIST_ROW
from udfs.problems import Problems
from udfs.texts import Work, read_texts
from udfs.tuning import TrainTexts, prepared


@dataclass(frozen=True)
class Fuser:
    """Fuses the lists of texts that come straight from retrievers, exactly as lists that were written are fused."""

    plan: FusionPlan
    train_texts: TrainTexts | None = None

    @cached_property
    def _work(self) -> Work:
        return prepared(fuse_lists(self.plan), None, self.train_texts)

    def __call__(self, lists: Sequence[Ranked], texts: int) -> pa.Table:
        """The fused lists of all labels: text_id (the place of the text), label_ids and scores, by text. A text without
        a candidate has none."""
        rows = list_table(lists, len(self.plan.layout.slots), texts)
        problems = Problems()
        batch = read_texts(rows, self.plan.layout, problems) if len(rows) else None
        batches = [] if batch is None else list(self._work(iter([batch]), problems))
        if problems:
            raise problems.error()
        return pa.Table.from_batches(batches, self.plan.schema).select(["text_id", "label_ids", "scores"])


def list_table(lists: Sequence[Ranked], groups: int, texts: int) -> pa.Table:
    """The lists of several retrievers as list rows, by text. Empty lists are left out, as they are in files."""
    size = np.concatenate([np.diff(ranked.offset) for ranked in lists])
    # Row [retriever, text, group], taken text by text; its list code is retriever * groups + group.
    place = np.arange(len(size)).reshape(len(lists), texts, groups).transpose(1, 0, 2).reshape(texts, -1)
    code = np.tile(np.arange(len(lists) * groups, dtype=np.int32), texts)
    text = np.repeat(np.arange(texts), len(lists) * groups)
    order = place.ravel()
    kept = size[order] > 0
    offset = pa.array(np.concatenate(([0], np.cumsum(size))), pa.int32())
    columns = [
        pa.ListArray.from_arrays(offset, pa.array(np.concatenate(values))).take(pa.array(order[kept]))
        for values in ([ranked.item for ranked in lists], [ranked.score for ranked in lists])
    ]
    about = [pa.array(text[kept]), pa.array(np.zeros(kept.sum(), np.int32)), pa.array(code[kept])]
    return pa.table(dict(zip(LIST_ROW, [*about, *columns], strict=True)))
