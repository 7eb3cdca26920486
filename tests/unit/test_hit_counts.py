"""What the workers count, packed and added up: the same however the texts are divided among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from fusion.cells import Cell
from fusion.grid.hits import Hits
from fusion.kernel.texts import TextBlock
from fusion.metrics import Metric
from fusion.statistics.coverage import UNSEEN
from tests.lists import random_relevant, random_texts, to_texts
from udfs.counter import (
    COVERAGE,
    HITS,
    LENGTHS,
    Counter,
    add_counts,
    judged_hits,
    numbers_from_bytes,
    numbers_to_bytes,
    unpacked,
)
from udfs.lists import LabelGroups, Layout
from udfs.plan import Details, EvaluationPlan, counted_labels
from udfs.problems import Problems
from udfs.texts import Batch

TEXTS = 90
SUMS = ("queries", "sums", "products", "blocks", "block_texts", "block_prints")
LABELS = pa.array(range(50), pa.int32())
GROUPS = LabelGroups(("tail", "head"), LABELS, (np.arange(50) >= 30).astype(np.int8))
COUNTED = counted_labels(LABELS, np.arange(50), ("tail", "head", "all"), GROUPS, {0: pa.array([3, 40], pa.int64())})


def part_of(texts: TextBlock, ids: slice) -> Batch:
    """Some of the texts, whose ids are their numbers."""
    relevant = texts.relevant._replace(start=texts.relevant.start[ids], stop=texts.relevant.stop[ids])
    chosen = replace(texts, start=texts.start[ids], stop=texts.stop[ids], relevant=relevant)
    text_id = pa.array(range(*ids.indices(TEXTS)))
    fold, judged = np.zeros(len(text_id), np.int32), np.ones(len(text_id), np.bool_)
    return Batch(chosen, text_id, fold, judged, pa.array, text_id.to_numpy() % 8 - 1)


def counted(evaluation: EvaluationPlan, texts: TextBlock, parts: list[slice]) -> tuple[bool, dict[str, bytes]]:
    """All numbers, from one worker per part of the texts; also whether all of them were sent with their places."""
    rows: list[pa.RecordBatch] = []
    for ids in parts:
        counter = Counter(evaluation, Problems())
        counter.add(part_of(texts, ids))
        rows += counter.packed()
    table = pa.Table.from_batches(rows)
    with_places = [
        places != b""
        for part, places in zip(table["part"].to_pylist(), table["places"].to_pylist(), strict=True)
        if not part.startswith(LENGTHS)
    ]
    coverage, sums, tally = evaluation.new_coverage(), evaluation.new_sums(), evaluation.new_tally()
    lengths = evaluation.new_lengths()
    for name in dict.fromkeys(table["part"].to_pylist()):
        added = add_counts(table.filter(pa.compute.equal(table["part"], name)))
        ((places, counts),) = unpacked(added)
        if name.startswith(LENGTHS):
            lengths[name.removeprefix(LENGTHS)].unpack(places, counts)
        elif name in (HITS, COVERAGE):
            (tally if name == HITS else coverage).unpack(places, counts)
        else:
            sums.unpack(name, places, counts)
    arrays = {"hits": tally.counts, "coverage": coverage.counts, **{name: getattr(sums, name) for name in SUMS}}
    arrays |= {f"lengths of {view}": of_view.packed() for view, of_view in lengths.items()}
    assert all(array.any() for array in arrays.values())
    return all(with_places), {name: array.tobytes() for name, array in arrays.items()}


@pytest.mark.parametrize("blocks", [2, 1024])
def test_parts_add_up_to_the_whole(blocks: int) -> None:
    """With two blocks most numbers are not zero and are sent as they are; with 1,024, with their places."""
    rng = np.random.default_rng(blocks)
    texts = to_texts(random_texts(rng, TEXTS), random_relevant(rng, TEXTS))
    layout = Layout(("bm25", "dense"), ("tail", "head"), GROUPS)
    cells = (Cell("zmuv", "combmnz"), Cell("rank", "isr"))
    metrics = (Metric("ndcg", 3), Metric("precision", 10), Metric("map", 0), Metric("recall", 300))
    evaluation = EvaluationPlan(layout, cells, layout.views, "group", metrics, Details(COUNTED, blocks, 100, 0))
    with_places, whole = counted(evaluation, texts, [slice(0, TEXTS)])
    assert with_places == (blocks == 1024)
    assert whole == counted(evaluation, texts, [slice(60, TEXTS), slice(0, 1), slice(1, 60)])[1]


def test_hits_below_all_cutoffs_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    texts = to_texts(random_texts(rng, TEXTS), random_relevant(rng, TEXTS))
    layout = Layout(("bm25", "dense"), ("tail", "head"), GROUPS)
    evaluation = EvaluationPlan(
        layout, (Cell("zmuv", "combmnz"),), layout.views, "group", (Metric("ndcg", 3),), Details(COUNTED, 8, 100, 0)
    )
    hits = judged_hits(part_of(texts, slice(0, TEXTS)), evaluation, evaluation.grid, Problems())
    for of_view in hits:
        near = of_view.within(evaluation.depth)
        assert (near.ranks.min(axis=1, initial=4, where=near.ranks > 0) <= 3).all()
        assert len(near.text) == ((of_view.ranks > 0) & (of_view.ranks <= 3)).any(axis=1).sum() < len(of_view.text)
    _, kept = counted(evaluation, texts, [slice(0, TEXTS)])
    monkeypatch.setattr(Hits, "within", lambda hits, depth: hits)
    assert counted(evaluation, texts, [slice(0, TEXTS)])[1] == kept


def test_labels_without_training_texts_have_a_band_of_their_own() -> None:
    bands = COUNTED.bands_of("all", pa.array([3, 4, 40, 3], pa.int32()), np.array([0, 0, 0, 1], np.int32))
    assert (bands == UNSEEN).tolist() == [True, False, True, False]
    # Without such labels, every label has its band by frequency, the rarest first.
    plain = counted_labels(LABELS, np.arange(50), ("all",), None, None)
    of_all = plain.bands_of("all", LABELS, np.zeros(50, np.int32))
    assert of_all.tolist() == sorted(of_all) and set(of_all) == set(range(of_all.max() + 1))
    # Watched are the most frequent first.
    assert plain.watched["all"].lookup(pa.array([49, 48, 0], pa.int32())).tolist() == [0, 1, 49]
    assert COUNTED.watched["tail"].lookup(pa.array([29, 40], pa.int32())).tolist() == [0, -1]


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ([], 0),
        ([7], 5),
        ([0, -(2**31), 2**31 - 1], 13),
        ([1, 2**31], 16),
        ([-(2**31) - 1], 8),
        ([2**63 - 1, -(2**63), 5], 24),
    ],
)
def test_whole_numbers_as_bytes_and_back(numbers: list[int], size: int) -> None:
    content = numbers_to_bytes(np.array(numbers, np.int64))
    again = numbers_from_bytes(content)
    assert (again.tolist(), again.dtype, len(content)) == (numbers, np.int64, size)
