"""What the retrievers and Spark pass to each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fusion.retrieval.ranked import Ranked

Batches = Iterator[pa.RecordBatch]
"""What a function for `mapInArrow` takes and gives."""
LISTS_SCHEMA = "fold int, retriever string, text_id long, label_group string, label_ids array<int>, scores array<float>"
"""The table `candidates`: one row per ranked list."""


def list_rows(fold: int, retriever: str, text_id: pa.Array, groups: Sequence[str], lists: Ranked) -> pa.RecordBatch:
    """One row for each list that is not empty; list number q * g + j is that of text q and group j."""
    kept = np.flatnonzero(np.diff(lists.offset))
    query, group = np.divmod(kept, len(groups))
    # What lies between two kept lists is empty, so the next one's beginning is this one's end.
    offset = pa.array(np.append(lists.offset[kept], lists.offset[-1]), pa.int32())
    columns: dict[str, Any] = {
        "fold": pa.array(np.full(len(kept), fold, np.int32)),
        "retriever": pa.array([retriever] * len(kept), pa.string()),
        "text_id": text_id.take(pa.array(query)).cast(pa.int64()),
        "label_group": pa.array(groups, pa.string()).take(pa.array(group)),
        "label_ids": pa.ListArray.from_arrays(offset, pa.array(lists.item)),
        "scores": pa.ListArray.from_arrays(offset, pa.array(lists.score)),
    }
    return pa.RecordBatch.from_pydict(columns)
