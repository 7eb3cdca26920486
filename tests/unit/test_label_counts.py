"""Counts per label: the same however texts are divided, and within bounds at 670,000 labels."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from fusion.kernel.pools import Relevant
from fusion.statistics.label_counts import ENTRIES, LabelCounts, Listed, label_sums, label_values
from fusion.types import Array, Int32s, Ints
from udfs.counter import COUNTS_SCHEMA, add_counts
from udfs.plan import part_name

LABELS, TEXTS, LISTED, CUTOFFS = 670_000, 20_000, 10, (1, 5, 10)
KEY = (0, "all", 3)


def add_texts(counts: LabelCounts, rng: np.random.Generator, texts: int) -> None:
    """Texts with five labels and ten listed ones each, of which a fifth is right."""
    carried = rng.integers(0, LABELS, 5 * texts)
    listed = rng.integers(0, LABELS, LISTED * texts)
    rank = np.tile(np.arange(1, LISTED + 1, dtype=np.int32), texts)
    add_labels(counts, carried, listed, rank, rng.random(len(listed)) < 0.2)


def add_labels(counts: LabelCounts, carried: Ints, listed: Ints, rank: Int32s, hit: Array) -> None:
    """Each listed label of a text of its own, which carries it where `hit` says so."""
    label = listed.astype(np.int32)
    ends = np.cumsum(hit)
    relevant = Relevant(ends - hit, ends, label[hit])
    counts.add_carried(KEY, carried)
    every = np.ones(len(listed), np.bool_)
    counts.add_listed(KEY, Listed(np.arange(len(listed)), label, rank), listed, LABELS, every, relevant)


def rows_of(counts: LabelCounts) -> list[dict[str, object]]:
    part = part_name(KEY[1], KEY[2], len(CUTOFFS))
    return [
        {"fold": 0, "part": part, "places": places.tobytes(), "counts": number.tobytes(), "problems": None}
        for _, places, number in counts.packed()
    ]


@pytest.mark.drill
def test_memory_is_bounded_at_670_000_labels() -> None:
    """A worker holds back at most ENTRIES counts and a batch; adding up takes one vector of the labels."""
    rng = np.random.default_rng(0)
    counts = LabelCounts(CUTOFFS)
    rows: list[dict[str, object]] = []
    tracemalloc.start()
    for _ in range(10):
        add_texts(counts, rng, TEXTS)
        if counts.entries >= ENTRIES:
            rows += rows_of(counts)
            assert counts.entries == 0
    _, while_counting = tracemalloc.get_traced_memory()
    rows += rows_of(counts)
    table = pa.Table.from_pylist(rows, pa.schema([*SCHEMA]))
    del rows
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    added = add_counts(table)
    _, while_adding = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one_vector = LABELS * counts.width * 8
    assert while_counting < 150e6
    assert while_adding - before < 6 * one_vector < 250e6
    sums = np.frombuffer(added["counts"][0].as_py(), np.float64)
    # Almost every label is carried by some of a million pairs: 1 - exp(-1,000,000 / 670,000) of them.
    assert sums[0] == pytest.approx(LABELS * (1 - np.exp(-5 * 10 * TEXTS / LABELS)), rel=0.01)


SCHEMA = [
    ("fold", pa.int32()),
    ("part", pa.string()),
    ("places", pa.binary()),
    ("counts", pa.binary()),
    ("problems", pa.string()),
]


def test_the_schema_is_that_of_the_workers() -> None:
    assert [name for name, _ in SCHEMA] == COUNTS_SCHEMA.names


def test_parts_add_up_to_the_whole() -> None:
    whole, sums = LabelCounts(CUTOFFS), []
    add_texts(whole, np.random.default_rng(1), 300)
    pieces = [LabelCounts(CUTOFFS) for _ in range(3)]
    rng = np.random.default_rng(1)
    carried, listed = rng.integers(0, LABELS, 1500), rng.integers(0, LABELS, 3000)
    rank, hit = np.tile(np.arange(1, 11, dtype=np.int32), 300), rng.random(3000) < 0.2
    for n, piece in enumerate(pieces):
        add_labels(piece, carried[n::3], listed[n::3], rank[n::3], hit[n::3])
    for counts in ([whole], pieces):
        table = pa.Table.from_pylist([row for count in counts for row in rows_of(count)], pa.schema([*SCHEMA]))
        sums.append(add_counts(table)["counts"][0].as_py())
    assert sums[0] == sums[1]


def test_nothing_carried_is_no_figure() -> None:
    assert set(label_values(label_sums(np.zeros(0, np.int64), 2), (1, 5)).values()) == {None}
