"""Benchmark data on disk: candidates as one table per retriever, judgements and label groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.synthetic import label_groups, make_chunk
from fusion.labels import HEAD, TAIL

CHUNK = 4_000
CHUNKS_PER_FILE = 5
RETRIEVERS = ("bm25", "dense")


def write_data(
    folder: Path, texts: int, labels: int = 4_000, retrievers: tuple[str, ...] = RETRIEVERS
) -> dict[str, Any]:
    """Write the tables where they are not there yet; the settings that name them."""
    inputs = {
        "inputs.candidates": {name: str(folder / f"{name}.parquet") for name in retrievers},
        "inputs.judgements": str(folder / "judgements.parquet"),
        "inputs.label_groups": str(folder / "labels.parquet"),
    }
    if (folder / "complete").exists():
        return inputs
    for name in (*retrievers, "judgements", "labels"):
        (folder / f"{name}.parquet").mkdir(parents=True, exist_ok=True)
    ids, groups = label_groups(labels)
    pq.write_table(pa.table({"label_id": ids, "label_group": groups.tolist()}), folder / "labels.parquet" / "0.parquet")
    for number, begin in enumerate(range(0, texts, CHUNK * CHUNKS_PER_FILE)):
        parts: dict[str, list[pa.Table]] = {name: [] for name in (*retrievers, "judgements")}
        for first in range(begin, min(texts, begin + CHUNK * CHUNKS_PER_FILE), CHUNK):
            chunk = make_chunk(first, min(CHUNK, texts - first), labels, retrievers)
            text_id = np.arange(first, first + len(chunk.sizes), dtype=np.int64)
            relevant = list_array(chunk.relevant, chunk.sizes)
            parts["judgements"].append(pa.table({"text_id": text_id, "label_ids": relevant}))
            for name in retrievers:
                for group in (TAIL, HEAD):
                    label, score = chunk.lists[name, group]
                    sizes = (label >= 0).sum(axis=1)
                    parts[name].append(
                        pa.table(
                            {
                                "text_id": text_id,
                                "label_group": [group] * len(text_id),
                                "label_ids": list_array(label[label >= 0], sizes),
                                "scores": list_array(score[label >= 0], sizes),
                            }
                        )
                    )
        for name, tables in parts.items():
            pq.write_table(pa.concat_tables(tables), folder / f"{name}.parquet" / f"{number}.parquet")
    (folder / "complete").touch()
    return inputs


def list_array(values: np.ndarray, sizes: np.ndarray) -> pa.ListArray:
    """A column of lists from flat values and the sizes of the lists."""
    return pa.ListArray.from_arrays(pa.array(np.concatenate(([0], np.cumsum(sizes))), pa.int32()), pa.array(values))
