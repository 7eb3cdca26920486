"""The engine `local`: the same kernel in this process, one thread per core. No Spark and no JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fusion.types import Ints
from udfs.lists import Layout
from udfs.problems import Problems
from udfs.texts import Work, read_texts, text_starts

TEXTS_AT_ONCE, COLUMNS, FEWEST_AT_ONCE = 4_096, 128, 256
"""Texts that a thread lays out as arrays at the same time, for a grid of so many columns, and at least."""


def run_local(rows: pa.Table, layout: Layout, work: Work, columns: int = COLUMNS) -> list[pa.RecordBatch]:
    """From list rows to the rows of `work`. Each thread has a range of the texts, so the result is in their order.
    `columns`: those of the grid; of many, fewer texts are laid out at the same time."""
    at_once = max(min(TEXTS_AT_ONCE, FEWEST_AT_ONCE), TEXTS_AT_ONCE * COLUMNS // max(columns, COLUMNS))
    ordered = _by_text(rows)
    starts = text_starts(ordered["text_id"])
    threads = min(_cores(), max(1, len(starts) // TEXTS_AT_ONCE + 1))
    shares = np.array_split(starts, threads)
    ends = [*(share[0] for share in shares[1:]), len(ordered)]

    def run(share: Ints, end: int) -> list[pa.RecordBatch]:
        problems = Problems()
        batches = (read_texts(table, layout, problems) for table in _tables(ordered, share, int(end), at_once))
        return list(work((batch for batch in batches if batch is not None), problems))

    with ThreadPoolExecutor(threads) as pool:
        return [batch for batches in pool.map(run, shares, ends) for batch in batches]


def text_tables(rows: pa.Table, at_once: int) -> Iterator[pa.Table]:
    """List rows by text, some texts at a time."""
    ordered = _by_text(rows)
    return _tables(ordered, text_starts(ordered["text_id"]), len(ordered), at_once)


def _by_text(rows: pa.Table) -> pa.Table:
    return rows.take(pc.sort_indices(rows, [("text_id", "ascending")])).combine_chunks()


def _tables(ordered: pa.Table, starts: Ints, end: int, at_once: int) -> Iterator[pa.Table]:
    """The rows of a range of texts, some texts at a time."""
    edges = [*starts[::at_once].tolist(), end]
    for first, last in pairwise(edges):
        yield ordered.slice(first, last - first)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
