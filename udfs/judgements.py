"""How texts were judged, as short digests: the same in every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa

JUDGED_SCHEMA = "text_id string, judgement long"


def judgement_digests(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: from text_id and label_ids to text_id and a digest of the labels, whatever their order."""
    for batch in batches:
        digests = [_digest(labels or ()) for labels in batch["label_ids"].cast(pa.list_(pa.string())).to_pylist()]
        yield pa.RecordBatch.from_arrays(
            [batch["text_id"].cast(pa.string()), pa.array(digests, pa.int64())], names=["text_id", "judgement"]
        )


def _digest(labels: list[str | None] | tuple[()]) -> int:
    text = "\n".join(sorted(label for label in labels if label is not None))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
