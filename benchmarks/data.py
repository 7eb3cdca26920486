"""Made-up candidates of realistic shape: Zipf labels, overlapping lists, planted relevance; in memory and on disk.

For benchmarks and tests, where size matters and meaning does not. The same chunk is always the same rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fusion.labels import HEAD, TAIL, head_size
from fusion.types import Array, Floats, Int32s, Ints

CHUNK = 4_000
CHUNKS_PER_FILE = 5
RETRIEVERS = ("bm25", "dense")
LISTED = 64
"""The results of a list."""
_DRAWS, _POOL = 192, 96
_LABELS_PER_TEXT = 5.0
_ZIPF = 0.8


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


class Chunk(NamedTuple):
    """Texts `first` to `first + len(sizes)`: relevant labels (flat, with each text's number of them), and labels
    and scores of the lists by retriever and label group, best first (texts x LISTED; -1 beyond a list's end)."""

    first: int
    relevant: Int32s
    sizes: Ints
    lists: dict[tuple[str, str], tuple[Int32s, Array]]


def label_groups(labels: int) -> tuple[Int32s, Array]:
    """Label ids from the most frequent to the rarest, and their groups."""
    ids = np.random.default_rng([0, 1]).permutation(labels).astype(np.int32)
    groups = np.full(labels, TAIL, dtype=object)
    groups[: head_size(labels)] = HEAD
    return ids, groups


def make_chunk(first: int, texts: int, labels: int, retrievers: tuple[str, ...] = RETRIEVERS) -> Chunk:
    """The texts from `first` on, with relevant labels and the lists of every retriever."""
    rng = np.random.default_rng([0, 2, first])
    ids, _ = label_groups(labels)
    head = head_size(labels)
    weight = 1 / np.arange(1, labels + 1) ** _ZIPF

    sizes = 1 + rng.poisson(_LABELS_PER_TEXT - 1, texts)
    most = int(sizes.max())
    drawn = _zipf(rng, weight, (texts, most))
    wanted = np.arange(most) < sizes[:, None]
    wanted &= ~_repeats(drawn)
    relevant_rank = np.where(wanted, drawn, -1)

    lists = {}
    for group, low, high in ((TAIL, head, labels), (HEAD, 0, head)):
        mine = np.where((relevant_rank >= low) & (relevant_rank < high), relevant_rank, -1)
        others = low + _zipf(rng, weight[low:high], (texts, min(_DRAWS, 2 * (high - low))))
        pool = np.concatenate([mine, others], axis=1)
        pool[_repeats(pool)] = -1
        # Keep some distractors next to all relevant labels.
        pool = pool[:, : most + _POOL]
        relevant = (np.arange(pool.shape[1]) < most) & (pool >= 0)
        shared = rng.normal(size=pool.shape) + 1.5 * relevant
        for r, retriever in enumerate(retrievers):
            affinity = shared + rng.normal(size=pool.shape)
            affinity[(pool < 0) | (relevant & (rng.random(pool.shape) < 0.15))] = -np.inf
            best = np.argsort(-affinity, axis=1, kind="stable")[:, :LISTED]
            affinity, label = (np.take_along_axis(rows, best, axis=1) for rows in (affinity, pool))
            label = np.where(np.isneginf(affinity), -1, ids[label]).astype(np.int32)
            lists[retriever, group] = (label, _scores(r, affinity))
    return Chunk(first, ids[relevant_rank[wanted]], wanted.sum(axis=1), lists)


def _zipf(rng: np.random.Generator, weight: Floats, shape: tuple[int, int]) -> Ints:
    share = np.cumsum(weight) / weight.sum()
    return np.minimum(np.searchsorted(share, rng.random(shape)), len(weight) - 1)


def _repeats(rows: Array) -> Array:
    """Whether a value stands further left in its row, too."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    again = np.zeros(rows.shape, np.bool_)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    out = np.empty_like(again)
    np.put_along_axis(out, order, again, axis=1)
    return out


def _scores(retriever: int, affinity: Floats) -> Array:
    """The first retriever scores like BM25 (positive, unbounded), the others like cosines."""
    finite = np.where(np.isneginf(affinity), 0.0, affinity)
    score = 8 * np.exp(finite / 3) if retriever == 0 else np.tanh(finite / 4)
    return score.astype(np.float32)
