"""The kernel against the reference, on random lists with ties, gaps and empty lists."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fusion import FUSIONS, NORMALIZATIONS
from fusion.cells import Cell
from fusion.grid.grid import Grid, parse_cells
from fusion.grid.hits import find_hits
from fusion.kernel.arithmetic import LARGEST, MatrixArithmetic
from fusion.kernel.candidates import Policies
from fusion.kernel.pools import merge_lists
from fusion.kernel.ranking import list_order, relevant_ranks, top
from fusion.labels import ALL
from fusion.metrics import Metric
from fusion.statistics.tally import Tally, hit_weights
from tests import reference
from tests.lists import no_relevant, of_group, random_relevant, random_texts, to_lists, to_texts, whole

UNTRAINED = [entry.name for entry in FUSIONS if not entry.parameters.trained]
CELLS = [
    Cell(normalization, fusion)
    for normalization in NORMALIZATIONS.names()
    for fusion in UNTRAINED
    if normalization in ("zmuv", "borda") or fusion in ("combsum", "combmed")
]
GROUPS = ("tail", "head")
VIEWS = (*GROUPS, ALL)


@pytest.mark.parametrize("retrievers", [2, 3, 4])
@pytest.mark.parametrize("fusion", UNTRAINED)
def test_scores_equal_the_reference(fusion: str, retrievers: int) -> None:
    texts = random_texts(np.random.default_rng(retrievers), 25, retrievers)
    for view in VIEWS:
        pools = merge_lists(to_lists(texts, view), no_relevant(len(texts)), keep_all=True)
        grid = Grid(Cell(normalization, fusion) for normalization in NORMALIZATIONS.names())
        for column, fused in grid.fused(pools):
            normalization = grid.columns[column][0] or "rank"
            for p, text in enumerate(texts):
                lists = whole(text) if view == ALL else of_group(text, view)
                expected = dict(reference.fuse(lists, normalization, fusion))
                part = slice(pools.offset[p], pools.offset[p + 1])
                assert pools.label[part].tolist() == sorted(expected)
                np.testing.assert_allclose(fused[part], [expected[x] for x in sorted(expected)], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("scope", ["group", "joint"])
@pytest.mark.parametrize("retrievers", [2, 3])
def test_ranks_of_relevant_labels(retrievers: int, scope: str) -> None:
    """Every rank that the kernel counts is the label's place in the ranking that the reference sorts."""
    rng = np.random.default_rng(7)
    # Without ties among the scores; ties of fused scores remain, and the float32 rounding makes them ties here, too.
    texts, relevant = random_texts(rng, 60, retrievers, ties=False), random_relevant(rng, 60)
    grid = Grid(CELLS)
    hits, repeated = find_hits(to_texts(texts, relevant), grid, VIEWS, GROUPS, scope)
    assert not len(repeated)
    seen = 0
    for found in hits:
        seen += len(found.text)
        assert (found.ranks[:, : len(grid.columns)] >= 1).all()
        for q, text in enumerate(texts):
            for cell in CELLS:
                ranking = _ranking(text, cell, found.view, scope)
                expected = [place for place, label in enumerate(ranking, 1) if label in relevant[q]]
                got = found.ranks[found.text == q, grid.column_of[cell]]
                assert sorted(got.tolist()) == expected, (found.view, q, cell)
            for r, name in enumerate(text):
                alone = {**text[name]["tail"], **text[name]["head"]} if found.view == ALL else text[name][found.view]
                ranking = reference.ordered(alone)
                expected = [place for place, label in enumerate(ranking, 1) if label in relevant[q]]
                got = found.ranks[found.text == q, len(grid.columns) + r]
                assert sorted(got[got > 0].tolist()) == expected
    assert seen > 100


def _ranking(text, cell: Cell, view: str, scope: str) -> list[int]:
    if scope == "group" and view != ALL:
        return [label for label, _ in reference.fuse(of_group(text, view), *cell)]
    ranking = [label for label, _ in reference.fuse(whole(text), *cell)]
    return [label for label in ranking if view == ALL or (label < 30) == (view == "tail")]


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    texts = to_texts(random_texts(rng, 50), random_relevant(rng, 50))
    whole_hits, _ = find_hits(texts, Grid(CELLS), VIEWS, GROUPS, "group")
    monkeypatch.setattr("fusion.kernel.texts.TEXTS_PER_BLOCK", 7)
    monkeypatch.setattr("fusion.kernel.texts.ENTRIES_PER_BLOCK", 100)
    for a, b in zip(whole_hits, find_hits(texts, Grid(CELLS), VIEWS, GROUPS, "group")[0], strict=True):
        np.testing.assert_array_equal(a.text, b.text)
        np.testing.assert_array_equal(a.ranks, b.ranks)


def test_a_label_twice_in_a_list_is_seen() -> None:
    texts = random_texts(np.random.default_rng(0), 5, ties=False)
    texts[3]["bm25"]["tail"] = {1: 2.0, 2: 1.0, 4: 0.5}
    made = to_texts(texts, [{1}] * 5)
    first = made.start[3, 0, 0]
    made.label[first + 2] = 1
    _, repeated = find_hits(made, Grid(CELLS[:1]), ("tail",), GROUPS, "group")
    assert repeated.tolist() == [3]


def test_rank_counts_ties_by_label_id() -> None:
    fused = np.array([1, 3, 3, 2, 3], np.float32)
    ranks = relevant_ranks(fused, np.array([0, 5]), np.array([0, 1, 2, 3, 4]), np.array([0, 5]))
    assert ranks.tolist() == [5, 1, 2, 4, 3]


def test_top_is_the_total_order() -> None:
    fused = np.array([1, 3, 3, 2, 7, 7, 8], np.float32)
    chosen, begin = top(fused, np.array([0, 4, 4, 7]), 3)
    assert chosen.tolist() == [1, 2, 3, 6, 4, 5]
    assert begin.tolist() == [0, 3, 3, 6]


def test_unsorted_lists_are_sorted_and_others_left_alone() -> None:
    label = np.array([5, 6, 9, 1, 2], np.int32)
    score = np.array([1.0, 2.0, 2.0, 1.0, 1.0])
    order = list_order(np.array([0, 3, 5]), np.array([True, False]), label, score)
    assert label[order].tolist() == [6, 9, 5, 1, 2]


def test_rank_methods_are_one_column() -> None:
    for chosen in ("all", "everything"):
        normalizations, fusions = NORMALIZATIONS.chosen(chosen), FUSIONS.chosen(chosen)
        by_scores = [entry for entry in fusions if entry.reads == "scores"]
        grid = Grid.of(chosen, chosen)
        assert len(grid.cells) == len(normalizations) * len(fusions)
        assert len(grid.columns) == len(normalizations) * len(by_scores) + len(fusions) - len(by_scores)


NAMED = [
    "isr",
    "log-isr",
    "bordafuse",
    "condorcet",
    "rrf(k=[0,7])",
    "rbc(phi=0.3)",
    "logn-isr(sigma=0.5)",
    "softmax(temperature=[0.5,30])+combgmnz(gamma=0.5)",
    "zmuv+wsum(bm25=0.3,dense=2)",
    "l2+wmnz(dense=0)",
    "borda+mixed(splade=0.1)",
    "weighted-bordafuse(bm25=2)",
    "weighted-condorcet(bm25=0.3,dense=0.2,splade=0.1)",
]
POLICIES = [Policies(), Policies("zero", "half"), Policies("minimum", "one", "mean_rank")]


@pytest.mark.parametrize("subset", [(), ("bm25", "dense"), ("dense", "splade")], ids=lambda names: "+".join(names))
@pytest.mark.parametrize(
    "policies", [Policies(), Policies("zero", "half"), Policies("minimum", "one", "mean_rank")], ids=str
)
def test_parameters_subsets_and_policies(policies: Policies, subset: tuple[str, ...]) -> None:
    """Beside each other in one grid; a candidate that is in none of a subset's lists has no score."""
    texts = random_texts(np.random.default_rng(5), 25, 3)
    for text in texts[:5]:
        text["bm25"]["tail"] = dict.fromkeys(text["bm25"]["tail"], 2.0)
    cells = [cell for name in NAMED for cell in parse_cells(name)]
    cells += [Cell(name, "combanz") for name in NORMALIZATIONS.names()]
    fixed = [cell.within(subset) for cell in cells] if subset else cells
    grid = Grid([*cells, *fixed], list(texts[0]), policies)
    chosen = {grid.column_of[cell]: cell for cell in fixed}
    for view in VIEWS:
        pools = merge_lists(to_lists(texts, view), no_relevant(len(texts)), keep_all=True)
        for column, fused in grid.fused(pools):
            if column not in chosen:
                continue
            cell = chosen[column]
            for p, text in enumerate(texts):
                lists = whole(text) if view == ALL else of_group(text, view)
                lists = {name: scores for name, scores in lists.items() if name in (subset or lists)}
                expected = dict(reference.fuse(lists, cell.scaling, cell.fusion, policies))
                inside = slice(pools.offset[p], pools.offset[p + 1])
                scores = [expected.get(label, np.nan) for label in pools.label[inside].tolist()]
                np.testing.assert_allclose(fused[inside], scores, rtol=1e-6, atol=1e-7, err_msg=str(cell))


def test_ranks_within_a_subset() -> None:
    """Relevant labels that the subset does not hold have no rank, and the others are ranked without the rest."""
    rng = np.random.default_rng(6)
    texts, relevant = random_texts(rng, 60, 3, ties=False), random_relevant(rng, 60)
    cell = Cell("zmuv", "combsum").within(["bm25", "splade"])
    grid = Grid([cell, Cell("zmuv", "combsum")], list(texts[0]))
    hits, _ = find_hits(to_texts(texts, relevant), grid, VIEWS, GROUPS, "group")
    unranked = 0
    for found in hits:
        ranks = found.ranks[:, grid.column_of[cell]]
        unranked += int((ranks == 0).sum())
        for q, text in enumerate(texts):
            lists = whole(text) if found.view == ALL else of_group(text, found.view)
            ranking = reference.fuse({name: lists[name] for name in ("bm25", "splade")}, "zmuv", "combsum")
            expected = [place for place, (label, _) in enumerate(ranking, 1) if label in relevant[q]]
            mine = ranks[found.text == q]
            assert sorted(mine[mine > 0].tolist()) == expected
    assert unranked > 20


def test_top_leaves_out_what_has_no_score() -> None:
    fused = np.array([np.nan, 1, 3, np.nan, np.nan, 7, 9], np.float32)
    chosen, begin = top(fused, np.array([0, 3, 5, 7]), 5)
    assert chosen.tolist() == [2, 1, 6, 5] and begin.tolist() == [0, 2, 2, 4]


def test_exponential_is_accurate() -> None:
    x = np.concatenate([np.linspace(-LARGEST, LARGEST, 20_001), np.linspace(-1, 1, 20_001), [-1e300, 1e300, 0.0]])
    expected = np.exp(np.clip(x, -LARGEST, LARGEST))
    np.testing.assert_allclose(MatrixArithmetic.exp(x), expected, rtol=5e-15)
    assert MatrixArithmetic.exp(np.array([0.0]))[0] == 1


def test_counts_add_up_in_any_order() -> None:
    rng = np.random.default_rng(5)
    ranks = rng.integers(0, 15, (40, 3)).astype(np.int32)
    relevant = rng.integers(1, 14, 40)
    group = np.minimum(relevant, rng.integers(1, 14, 40))
    whole_tally = Tally(VIEWS, 3, 10, 2)
    whole_tally.add_hits(1, ranks, relevant, group)
    whole_tally.add_queries(1, relevant, group)
    parts = Tally(VIEWS, 3, 10, 2)
    for rows in (slice(30, 40), slice(0, 30)):
        part = Tally(VIEWS, 3, 10, 2)
        part.add_hits(1, ranks[rows], relevant[rows], group[rows])
        part.add_queries(1, relevant[rows], group[rows])
        parts.unpack(np.arange(len(part.counts)), part.counts)
    np.testing.assert_array_equal(whole_tally.counts, parts.counts)

    metric = Metric("ndcg", 5)
    figures = {(found.label_group, found.ideal): found for found in whole_tally.figures([metric])}
    for column in range(3):
        kept = np.where(ranks[:, column] > 10, 0, ranks[:, column])
        gains = hit_weights(metric, 10)[kept, np.minimum(relevant, 10)]
        assert figures["head", "all"].values[column] == pytest.approx(gains.sum() / 40, rel=1e-12)
    assert figures["head", "all"].queries == 40
    assert figures["tail", "all"].values == [None] * 3
    assert (ALL, "group") not in figures


def test_long_lists_have_a_condorcet_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which gives the same scores: counted by bitsets in short pools, by a tree in long ones."""
    texts = random_texts(np.random.default_rng(4), 80)
    grid = Grid([Cell("rank", "condorcet")])
    for view in VIEWS:
        pools = merge_lists(to_lists(texts, view), no_relevant(len(texts)), keep_all=True)
        [(_, short)] = grid.fused(pools)
        monkeypatch.setattr(sys.modules["fusion.fusions.condorcet"], "LONG", 3)
        [(_, long)] = grid.fused(pools)
        monkeypatch.undo()
        np.testing.assert_array_equal(short, long)
