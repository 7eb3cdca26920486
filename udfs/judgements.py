"""How texts were judged, as short digests: the same in every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

JUDGED_SCHEMA = "text_id string, judgement long"


def judgement_digests(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: from text_id and label_ids (and grades, where there are some) to text_id and a digest of the
    labels, whatever their order."""
    for batch in batches:
        labels = batch["label_ids"].cast(pa.list_(pa.string())).to_pylist()
        if "grades" in batch.schema.names:
            graded = zip(labels, batch["grades"].to_pylist(), strict=True)
            labels = [
                [f"{label} {grade}" for label, grade in zip(own or (), grades or (), strict=False)]
                for own, grades in graded
            ]
        digests = [_digest(own or ()) for own in labels]
        yield pa.RecordBatch.from_arrays(
            [batch["text_id"].cast(pa.string()), pa.array(digests, pa.int64())], names=["text_id", "judgement"]
        )


def _digest(labels: Sequence[str | None]) -> int:
    text = "\n".join(sorted(label for label in labels if label is not None))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True)
