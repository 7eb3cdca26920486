"""What lists hold, against plain sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from fusion.cells import Cell
from fusion.grid.grid import Grid
from fusion.grid.hits import Hits, find_hits
from fusion.labels import ALL, frequency_bands
from fusion.metrics import Metric
from fusion.statistics.coverage import BANDS, MOST_MOVED, Coverage, common_candidates, joined_bands
from fusion.types import Array
from tests.lists import random_relevant, random_texts, to_texts

GROUPS = ("tail", "head")
VIEWS = (*GROUPS, ALL)
K = 5


def moves_of(coverage: Coverage) -> Array:
    """[view, band, column, retriever, cutoff, by how many less one]."""
    return np.moveaxis(coverage.band_moves, -1, 2)


@pytest.mark.parametrize("retrievers", [2, 3])
def test_overlap_and_shares(retrievers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(retrievers)
    made, relevant = random_texts(rng, 60, retrievers), random_relevant(rng, 60)
    texts, grid = to_texts(made, relevant), Grid([Cell("zmuv", "combsum")])
    hits, _ = find_hits(texts, grid, VIEWS, GROUPS, "group")
    monkeypatch.setattr("fusion.kernel.texts.LARGEST_LABEL", 20)
    coverage = Coverage(VIEWS, retrievers, len(grid.columns) + retrievers, [K])
    common = common_candidates(texts)
    names = list(made[0])
    for v, view in enumerate(VIEWS):
        numbers = [texts.relevant_counts(GROUPS, ALL), texts.relevant_counts(GROUPS, view)]
        counted = numbers[1] > 0
        coverage.add(v, texts.slots, common, counted, hits[v], numbers)

        expected_common = np.zeros((retrievers, retrievers), int)
        found, alone, union, total, ceiling = np.zeros(retrievers), np.zeros(retrievers), 0, 0, []
        for q in np.flatnonzero(counted):
            listed = [
                {label for group, scores in made[q][name].items() if view in (group, ALL) for label in scores}
                for name in names
            ]
            wanted = {label for label in relevant[q] if view == ALL or (label < 30) == (view == "tail")}
            total += len(wanted)
            union += len(wanted & set.union(*listed))
            ceiling.append(min(len(wanted & set.union(*listed)), K) / K)
            for r in range(retrievers):
                found[r] += len(wanted & listed[r])
                others = set().union(*(listed[s] for s in range(retrievers) if s != r))
                alone[r] += len((wanted & listed[r]) - others)
                for s in range(retrievers):
                    expected_common[r, s] += len(listed[r] & listed[s])
        np.testing.assert_array_equal(coverage.common[v], expected_common)
        np.testing.assert_array_equal(coverage.found[v], found)
        np.testing.assert_array_equal(coverage.alone[v], alone)
        assert (coverage.union[v], coverage.relevant[v]) == (union, total)
        assert coverage.ceiling(v, 0, Metric("precision", K)) == pytest.approx(np.mean(ceiling))


def test_bands_count_pairs_and_ranks() -> None:
    rng = np.random.default_rng(0)
    texts, relevant = random_texts(rng, 40), random_relevant(rng, 40)
    made, grid = to_texts(texts, relevant), Grid([Cell("zmuv", "combsum")])
    hits, _ = find_hits(made, grid, VIEWS, GROUPS, "group")
    coverage = Coverage(VIEWS, 2, len(grid.columns) + 2, [K, 1, 3, K])
    everyone = np.ones(40, bool)
    for v, view in enumerate(VIEWS):
        labels = made.relevant_labels(GROUPS, view, everyone)
        wanted = [label for of in relevant for label in of if view == ALL or (label < 30) == (view == "tail")]
        assert sorted(labels.tolist()) == sorted(wanted)
        coverage.add_bands(v, labels % BANDS, hits[v], hits[v].label % BANDS)
        assert coverage.band_pairs[v].sum() == len(wanted)
        for band in range(BANDS):
            ranks = hits[v].ranks[hits[v].label % BANDS == band, 0]
            expected = [(ranks == rank).sum() for rank in range(1, K + 1)]
            assert coverage.band_hits[v, band, 0].tolist() == expected


def test_texts_of_which_a_column_finds_more_labels_of_a_band() -> None:
    """Ranks in a fused column and in two single retrievers' lists (0: not listed), one row per relevant label. The
    first three labels are of one text, and two of these of one band: they count together."""
    ranks = np.array([[1, 9, 0], [2, 0, 1], [5, 0, 9], [0, 3, 3], [6, 6, 1]], np.int32)
    hits = Hits(ALL, np.array([0, 0, 0, 1, 2]), np.arange(5, dtype=np.int32), ranks)
    coverage = Coverage((ALL,), 2, 3, [1, 3, 5])
    coverage.add_bands(0, np.zeros(5, np.int64), hits, np.array([0, 1, 0, 0, 1]))
    assert coverage.found_in_band(0, 0).tolist() == [[1, 1, 2], [0, 1, 1], [0, 1, 1]]
    more, fewer = np.split(moves_of(coverage)[0, 0, 0], 2, axis=-1)  # [retriever, cutoff, by how many less one]
    assert more.shape == fewer.shape == (2, 3, MOST_MOVED)
    # Against the first retriever: text 0 has one label more among the first 1 and 3, and two more among the first 5.
    assert [np.flatnonzero(row).tolist() for row in more[0]] == [[0], [0], [1]] and more[0].sum() == 3
    # Text 1 has one fewer from the first 3 on, against both.
    assert fewer[:, :, 0].tolist() == [[0, 1, 1], [0, 1, 1]] and fewer.sum() == 4
    other_band = moves_of(coverage)[0, 1, 0]
    assert np.argwhere(other_band[0]).tolist() == [[1, 0], [2, 0]]
    assert other_band[1, :, MOST_MOVED].tolist() == [2, 1, 1] and other_band[1].sum() == 4


def test_moves_against_plain_counting() -> None:
    rng = np.random.default_rng(2)
    text = np.sort(rng.integers(0, 40, 400))
    ranks = rng.integers(0, 15, (400, 4)).astype(np.int32)
    bands = rng.integers(0, BANDS + 1, 400)
    coverage = Coverage((ALL,), 2, 4, [3, 12])
    coverage.add_bands(0, bands, Hits(ALL, text, text.astype(np.int32), ranks), bands)
    expected = np.zeros_like(moves_of(coverage)[0])
    for band, column, r, (c, k), t in product(range(BANDS + 1), range(2), range(2), enumerate([3, 12]), range(40)):
        found = ((ranks > 0) & (ranks <= k))[(text == t) & (bands == band)].sum(axis=0)
        more = found[column] - found[2 + r]
        if more:
            place = min(abs(more), MOST_MOVED) - 1 + MOST_MOVED * (more < 0)
            expected[band, column, r, c, place] += 1
    np.testing.assert_array_equal(moves_of(coverage)[0], expected)


def test_watched_labels() -> None:
    ranks = np.array([[1, 3], [4, 0], [2, 2], [1, 1]], np.int32)
    hits = Hits(ALL, np.array([0, 1, 1, 2]), np.arange(4, dtype=np.int32), ranks)
    coverage = Coverage((ALL,), 1, 2, [1, 5], watched=3, label_cutoff=3)
    coverage.add_labels(0, np.array([0, 0, 2, -1, 0]), hits, np.array([0, 0, 2, -1]))
    assert coverage.label_pairs[0].tolist() == [3, 0, 1]
    assert coverage.label_hits[0].tolist() == [[1, 1], [0, 0], [1, 1]]


def test_bands_with_few_pairs_are_joined() -> None:
    tenths = np.repeat(np.arange(BANDS), 2)
    counts = np.repeat([1, 1, 20, 20, 5, 50, 1, 1, 90, 3], 2)
    bands = joined_bands(tenths, counts)
    # 2, 2 and 40 pairs; 40; 10 and 100; 2, 2 and 180; the last 6 pairs go to the band before.
    assert bands[::2].tolist() == [0, 0, 0, 1, 2, 2, 3, 3, 3, 3]
    assert (bands[::2] == bands[1::2]).all()
    assert joined_bands(np.arange(3), np.ones(3)).tolist() == [0, 0, 0]
    assert joined_bands(np.empty(0, np.int8), np.empty(0, np.int64)).tolist() == []


def test_frequency_bands_go_from_the_rarest() -> None:
    ids, counts = np.arange(25), np.array([*range(25)])[::-1]
    bands = frequency_bands(ids, counts, 5)
    assert bands.tolist() == sorted(bands, reverse=True)
    assert np.bincount(bands).tolist() == [5] * 5
    # Of equally frequent labels, the earlier id counts as the more frequent, as in the Pareto rule.
    assert frequency_bands(np.array([1, 2]), np.array([3, 3]), 2).tolist() == [1, 0]
