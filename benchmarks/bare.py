"""The bare kernel over Parquet, without Spark: what the engines can approach but not pass.

One process per core, each with its share of the files; every file holds the same texts in all tables.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fusion.kernel.pools import Relevant
from fusion.kernel.texts import TextBlock
from fusion.labels import HEAD, TAIL
from fusion.statistics.watchers import UNKNOWN
from udfs.counter import Counter
from udfs.plan import EvaluationPlan
from udfs.problems import Problems
from udfs.texts import Batch

GROUPS = (TAIL, HEAD)


def run_bare(folder: Path, evaluation: EvaluationPlan, pool: ProcessPoolExecutor, processes: int) -> int:
    """Count the hits of all files; the number of texts."""
    files = sorted(int(path.stem) for path in (folder / "judgements.parquet").glob("*.parquet"))
    shares = [files[p::processes] for p in range(processes)]
    return sum(pool.map(_count_files, [folder] * processes, [evaluation] * processes, shares))


def _count_files(folder: Path, evaluation: EvaluationPlan, files: list[int]) -> int:
    counter = Counter(evaluation, Problems())
    texts = 0
    for file in files:
        batch = _read(folder, evaluation, file)
        counter.add(batch)
        texts += len(batch.texts)
    assert all(counter.packed())
    return texts


def _read(folder: Path, evaluation: EvaluationPlan, file: int) -> Batch:
    tables = [pq.read_table(folder / f"{name}.parquet" / f"{file}.parquet") for name in evaluation.layout.retrievers]
    judgements = pq.read_table(folder / "judgements.parquet" / f"{file}.parquet").combine_chunks()
    text_id = judgements["text_id"].combine_chunks()
    place = {int(text): n for n, text in enumerate(text_id.to_numpy())}
    start = np.zeros((len(text_id), len(tables), 2), np.int64)
    stop = start.copy()
    labels, scores, at = [], [], 0
    for r, table in enumerate(tables):
        table = table.combine_chunks()
        column = table["label_ids"].combine_chunks()
        offset = at + column.offsets.to_numpy() - column.offsets[0].as_py()
        row = np.array([place[int(text)] for text in table["text_id"].to_numpy()])
        group = table["label_group"].combine_chunks().dictionary_encode()
        slot = np.array([GROUPS.index(name) for name in group.dictionary.to_pylist()])[group.indices.to_numpy()]
        start[row, r, slot], stop[row, r, slot] = offset[:-1], offset[1:]
        labels.append(column.flatten().to_numpy())
        scores.append(table["scores"].combine_chunks().flatten().to_numpy().astype(np.float64))
        at = offset[-1]
    relevant = judgements["label_ids"].combine_chunks()
    sizes = np.diff(relevant.offsets.to_numpy())
    order = np.lexsort((relevant.flatten().to_numpy(), np.repeat(np.arange(len(sizes)), sizes)))
    wanted = relevant.flatten().to_numpy()[order]
    ends = np.cumsum(sizes)
    label, score = np.concatenate(labels), np.concatenate(scores)
    groups = evaluation.layout.groups
    assert groups is not None
    texts = TextBlock(
        GROUPS,
        start,
        stop,
        label,
        score,
        np.empty(0, np.int8),
        Relevant(np.concatenate(([0], ends[:-1])), ends, wanted),
        groups.lookup(pa.array(wanted)),
    )
    fold, length = np.zeros(len(text_id), np.int32), np.full(len(text_id), UNKNOWN)
    return Batch(texts, text_id, fold, np.ones(len(text_id), np.bool_), pa.array, length)
