"""Every figure, p-value, gain, verdict and name is written one way."""

from __future__ import annotations

import math

import pytest

from fusion.cells import Cell
from fusion.metrics import Aspect
from jobs.reporting.formats import (
    MINUS,
    NOTHING,
    cell_name,
    count,
    figure,
    full_metric_name,
    gain,
    joined,
    p_value,
    p_values,
    plain,
    points,
    shown_cell,
    span,
    verdict,
)
from jobs.reporting.model import Comparison, Value, Verdict


def test_figures() -> None:
    value = Value(0.515, 0.017, {}, best=False, bold=False, against_best=None)
    assert figure(value) == "51.5(1.7)"
    assert figure(Value(0.515, None, {}, best=False, bold=False, against_best=None)) == "51.5"
    assert figure(None) == NOTHING


def test_differences() -> None:
    assert points(0.0533) == "+5.3"
    assert points(-0.0004) == "+0.0"
    assert points(-0.01, 2) == f"{MINUS}1.00"
    assert gain(Comparison(0.084, 0.042, 0.127)) == "+8.4 [+4.2, +12.7]"
    assert gain(Comparison(0.084, 0.042, math.nan)) == "+8.4"
    assert plain(gain(Comparison(-0.01, -0.02, 0.0))) == "-1.0 [-2.0, +0.0]"


def test_p_values() -> None:
    assert [p_value(p) for p in (None, math.nan, 0.0, 0.00099, 0.001, 0.04, 1.0)] == [
        NOTHING, NOTHING, "<0.001", "<0.001", "0.001", "0.040", "1.000",
    ]  # fmt: skip
    assert p_values(Comparison(0.1, p_folds=0.2, p_randomization=1e-5)) == "folds p 0.200, random signs p <0.001"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Verdict("better", 1, 50), "better (tested over 50 texts)"),
        (Verdict("not significantly different", 1, 1), "not significantly different (tested over 1 text)"),
        (Verdict("better", 5, 19_314), "better"),
        (Verdict("not tested", 1), "not tested (one fold, no figures per text)"),
        (Verdict("not tested", 5), "not tested over texts"),
    ],
)
def test_verdicts(found: Verdict, words: str) -> None:
    assert verdict(found) == words


def test_names() -> None:
    assert cell_name(Cell("single", "dense")) == "dense alone"
    assert cell_name(Cell("max", "combsum")) == "max+combsum"
    assert cell_name(Cell("zmuv", "isr")) == cell_name(Cell("(any)", "isr")) == "isr (any normalisation)"
    assert cell_name(Cell("zmuv", "gone")) == "zmuv+gone"
    assert shown_cell(Cell("zmuv", "isr")) == Cell("(any)", "isr")
    assert shown_cell(Cell("single", "isr")) == Cell("single", "isr")
    assert full_metric_name(Aspect("tail", "ndcg", 5, "group")) == "nDCG@5 (group)"


def test_counts() -> None:
    assert (count(1234), count(1, "text"), count(0, "text")) == ("1,234", "1 text", "0 texts")
    assert (span(4, 4), span(4, 1200)) == ("4", f"4{NOTHING}1,200")
    assert (joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])) == ("a", "a and b", "a, b and c")
