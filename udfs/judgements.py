"""How texts were judged, as short digests: the same in every engine."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import repeat

import pyarrow as pa

JUDGED_SCHEMA = "text_id string, judgement long"


def judgement_digests(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: from text_id, label_ids and, where there are some, grades to text_id and a digest of how the
    text was judged, whatever the order of its labels."""
    for batch in batches:
        labels = batch["label_ids"].cast(pa.list_(pa.string())).to_pylist()
        grades = batch["grades"].to_pylist() if "grades" in batch.schema.names else [None] * len(labels)
        digests = [_digest(of_text or [], graded) for of_text, graded in zip(labels, grades, strict=True)]
        yield pa.RecordBatch.from_arrays(
            [batch["text_id"].cast(pa.string()), pa.array(digests, pa.int64())], names=["text_id", "judgement"]
        )


def _digest(labels: list[str | None], grades: list[float] | None) -> int:
    pairs = zip(labels, grades or repeat(None), strict=False)
    lines = sorted(label if grade is None else f"{label}\t{grade}" for label, grade in pairs if label is not None)
    return int.from_bytes(hashlib.blake2b("\n".join(lines).encode(), digest_size=8).digest(), "big", signed=True)
