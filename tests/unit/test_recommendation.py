"""The recommended cell, on examples made by hand."""

from __future__ import annotations

import pytest

from fusion.cells import SINGLE, Cell
from fusion.errors import InputError
from fusion.statistics.recommendation import recommend

A, B, C, D = (Cell("zmuv", name) for name in ("combmnz", "combsum", "isr", "combmin"))
SPARSE = Cell(SINGLE, "bm25")


def test_smallest_mean_regret() -> None:
    """A wins in neither aspect, and loses least."""
    found = recommend({"tail": {A: 0.48, B: 0.50, C: 0.40, SPARSE: 0.99}, "head": {A: 0.79, B: 0.70, C: 0.80}})
    assert found.cell == A
    assert (found.mean_regret, found.worst_regret, found.worst_aspect) == (1.5, 2.0, "tail")
    assert found.winners == {"tail": (B,), "head": (C,)}
    assert found.regrets == {
        A: {"tail": 2, "head": 1},
        B: {"tail": 0, "head": 10},
        C: {"tail": 10, "head": 0},
    }
    assert found.tied == ()


def test_ties_go_to_the_smaller_worst_regret_then_to_the_first() -> None:
    # A: 0 and 2; B, C: 1 and 1; D loses everywhere. 0.3 + 0.19 is not 0.49 to the last bit.
    figures = {"tail": {A: 0.50, C: 0.49, B: 0.3 + 0.19, D: 0.1}, "head": {A: 0.78, C: 0.79, B: 0.79, D: 0.80}}
    found = recommend(figures)
    assert (found.cell, found.mean_regret, found.worst_regret) == (C, 1, 1)
    assert found.tied == (B,)
    assert found.worst_aspect == "tail"


def test_a_cell_that_loses_to_no_retriever_comes_first() -> None:
    """A has the smallest mean regret, but bm25 alone is better on the tail; C is as good as bm25 there."""
    figures = {
        "tail": {A: 0.49, B: 0.40, C: 0.50, SPARSE: 0.50},
        "head": {A: 0.80, B: 0.75, C: 0.70, SPARSE: 0.60},
    }
    found = recommend(figures)
    assert (found.cell, found.mean_regret, found.lost) == (C, 5, ())
    # Where every cell loses somewhere, the fewest aspects count.
    figures["all"] = {A: 0.6, B: 0.7, C: 0.6, SPARSE: 0.8}
    assert (recommend(figures).cell, recommend(figures).lost) == (C, ("all",))


def test_cells_that_share_the_first_place_all_win() -> None:
    found = recommend({"tail": {A: 0.5, B: 0.5, C: 0.4}})
    assert (found.cell, found.tied, found.mean_regret) == (A, (B,), 0)
    assert found.winners == {"tail": (A, B)}


def test_a_cell_must_have_all_figures() -> None:
    assert recommend({"tail": {A: 0.9, B: 0.5}, "head": {B: 0.5}}).cell == B
    for figures in ({}, {"tail": {A: 0.9}, "head": {B: 0.5}}, {"tail": {SPARSE: 0.5}}):
        with pytest.raises(InputError, match="every aspect"):
            recommend(figures)
