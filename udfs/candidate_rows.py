"""What the retrievers and Spark pass to each other."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

Batches = Iterator[pa.RecordBatch]
"""What a function for `mapInArrow` takes and gives."""
LISTS_SCHEMA = "fold int, retriever string, text_id long, label_group string, label_ids array<int>, scores array<float>"
"""The table `candidates`: one row per ranked list."""
