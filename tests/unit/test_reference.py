"""The formulas, on numbers worked out by hand."""

import math

import numpy as np
import pytest

from fusion import FUSIONS, NORMALIZATIONS
from fusion.grid.trained import PRECISION_UNIT, Evidence
from fusion.kernel.candidates import Policies
from tests.reference import evaluate, fuse, matrices

SCORES = np.array([4.0, 3.0, 1.0])
NORMALIZED = {
    "min-max": [1, 2 / 3, 0],
    "max": [1, 0.75, 0.25],
    "sum": [3 / 5, 2 / 5, 0],
    "zmuv": [(4 - 8 / 3) / math.sqrt(14 / 9), (3 - 8 / 3) / math.sqrt(14 / 9), (1 - 8 / 3) / math.sqrt(14 / 9)],
    "rank": [1, 2 / 3, 1 / 3],
    "borda": [1, 0.8, 0.6],
    "borda-prose": [1, 0.75, 0.5],
    "l2": [4 / math.sqrt(26), 3 / math.sqrt(26), 1 / math.sqrt(26)],
    # Mean 8/3, variance 14/9: within three standard deviations, so that nothing is clipped.
    "dbsf": [0.5 + (s - 8 / 3) / (6 * math.sqrt(14 / 9)) for s in (4, 3, 1)],
    "softmax": [math.exp(s) / (math.exp(4) + math.exp(3) + math.exp(1)) for s in (4, 3, 1)],
    "sigmoid": [1 / (1 + math.exp(-s)) for s in (4, 3, 1)],
    "none": [4, 3, 1],
}
# Label 1 stands in both lists (ranks 1 and 2), label 2 in the first (rank 2), label 3 in the second (rank 1).
LOGIT = lambda p: math.log(p / (1 - p))  # noqa: E731
X = np.array([[0.5, 0.25, np.nan], [0.75, np.nan, 1.0]])
RANKS = np.array([[1, 2, np.nan], [2, np.nan, 1]])
FUSED = {
    "combmin": [0.5, 0.25, 1.0],
    "combmax": [0.75, 0.25, 1.0],
    "combmed": [0.625, 0.25, 1.0],
    "combsum": [1.25, 0.25, 1.0],
    "combanz": [0.625, 0.25, 1.0],
    "combmnz": [2.5, 0.25, 1.0],
    "isr": [2 * 1.25, 0.25, 1.0],
    "log-isr": [math.log(2) * 1.25, 0.0, 0.0],
    "bordafuse": [3 + 2, 2 + 1, 1 + 3],
    # 1 beats 2 in both lists; 1 and 3 win one list each; 2 and 3 win one list each.
    "condorcet": [1, -1, 0],
    "rrf": [1 / 61 + 1 / 62, 1 / 62, 1 / 61],
    "rbc": [0.2 + 0.16, 0.16, 0.2],
    "combgmnz": [1.25 * 4, 0.25, 1.0],
    "logn-isr": [math.log(2.01) * 1.25, math.log(1.01) * 0.25, math.log(1.01)],
    "wsum": [0.5 * 2 + 0.75, 0.5, 1.0],
    "wmnz": [1.25 * 3, 0.5, 1.0],
    "mixed": [1.75 * math.sqrt(2), 0.5, 1.0],
    "weighted-bordafuse": [2 * 3 + 2, 2 * 2 + 1, 2 * 1 + 3],
    # The first list weighs more, so that it alone decides: 1, 2, 3.
    "weighted-condorcet": [2, 0, -2],
    # See EVIDENCE: relevant at places 1 and 2 are 2/4 and 1/4, and 1/2 and 0.
    "bayesfuse": [LOGIT(3 / 20) + LOGIT(1 / 10), LOGIT(3 / 20) + LOGIT(0.001), LOGIT(0.001) + LOGIT(1 / 10)],
    "mapfuse": [0.5 / 1 + 0.25 / 2, 0.5 / 2, 0.25 / 1],
    "posfuse": [2 / 4 + 0, 1 / 4, 1 / 2],
    "probfuse": [2 / 4 + 0, 1 / 4 / 2, 1 / 2],
    "segfuse": [3 / 20 * 1.5 + 1 / 10 * 1.75, 3 / 20 * 1.25, 1 / 10 * 2],
    "slidefuse": [3 / 8 + 1 / 4, 3 / 8, 1 / 4],
}
# Four lists of two labels with hits at both places of one and the first of another; two lists of two with one hit.
EVIDENCE = [
    Evidence(4, np.array([0, 0, 4]), np.array([0, 2, 1]), int(0.5 * 4 / PRECISION_UNIT)),
    Evidence(2, np.array([0, 0, 2]), np.array([0, 1, 0]), int(0.25 * 2 / PRECISION_UNIT)),
]
WEIGHTS = {"weights": np.array([2.0, 1.0])}


@pytest.mark.parametrize("name", NORMALIZATIONS.names())
def test_normalization(name: str) -> None:
    np.testing.assert_allclose(NORMALIZATIONS[name].plain(SCORES, 5), NORMALIZED[name], rtol=1e-14)


@pytest.mark.parametrize("name", FUSIONS.names())
def test_fusion(name: str) -> None:
    given = WEIGHTS if FUSIONS[name].parameters.weighted else {}
    given = {"learned": EVIDENCE} if FUSIONS[name].parameters.trained else given
    np.testing.assert_allclose(FUSIONS[name].plain(X, RANKS, **given), FUSED[name], rtol=1e-14)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rrf(k=1)", [1 / 2 + 1 / 3, 1 / 3, 1 / 2]),
        ("rbc(phi=0.5)", [0.5 + 0.25, 0.25, 0.5]),
        ("combgmnz(gamma=0.5)", [1.25 * math.sqrt(2), 0.25, 1.0]),
        ("logn-isr(sigma=1)", [math.log(3) * 1.25, math.log(2) * 0.25, math.log(2)]),
    ],
)
def test_fusion_with_a_parameter(name: str, expected: list[float]) -> None:
    np.testing.assert_allclose(FUSIONS[name].plain(X, RANKS), expected, rtol=1e-14)


def test_normalization_with_a_parameter() -> None:
    expected = [math.exp(s / 2) for s in (4, 3, 1)]
    values = NORMALIZATIONS["softmax(temperature=2)"].plain(SCORES, 5)
    np.testing.assert_allclose(values, np.array(expected) / sum(expected), rtol=1e-14)


def test_policies() -> None:
    lists = {"a": {1: 3.0, 2: 1.0}, "b": {2: 5.0}}
    assert fuse(lists, "max", "combanz") == [(1, 1.0), (2, pytest.approx((1 / 3 + 1) / 2))]
    tied = {"a": {1: 3.0, 2: 3.0, 3: 1.0}, "b": {2: 0.5}}
    shared = [(2, pytest.approx(5 / 3)), (1, pytest.approx(2 / 3)), (3, pytest.approx(1 / 3))]
    assert fuse(tied, "none", "rrf(k=0)", Policies(tied="mean_rank")) == shared
    assert fuse(lists, "max", "combanz", Policies("zero")) == [(2, pytest.approx((1 / 3 + 1) / 2)), (1, 0.5)]
    assert fuse(lists, "max", "combsum", Policies("minimum")) == [(1, 2.0), (2, pytest.approx(4 / 3))]
    assert fuse(lists, "min-max", "combsum") == [(1, 1.0), (2, 0.0)]
    assert fuse(lists, "min-max", "combsum", Policies(constant="half")) == [(1, 1.0), (2, 0.5)]
    assert fuse(lists, "zmuv", "combmax", Policies(constant="one")) == [(1, 1.0), (2, 1.0)]
    assert fuse(lists, "none", "combmax", Policies(constant="one")) == [(2, 5.0), (1, 3.0)]


@pytest.mark.parametrize("name", ["min-max", "max", "sum", "zmuv"])
def test_equal_scores_do_not_divide_by_zero(name: str) -> None:
    assert np.isfinite(NORMALIZATIONS[name].plain(np.zeros(3), 3)).all()


def test_borda_gives_every_candidate_a_score_in_every_list() -> None:
    candidates, x, _ = matrices({"a": {1: 3.0, 2: 2.0, 3: 1.0}, "b": {4: 1.0}}, "borda")
    assert candidates == [1, 2, 3, 4]
    np.testing.assert_allclose(x, [[1, 0.75, 0.5, 0.5 - 2 / 8], [0.5, 0.5, 0.5, 1]])


def test_borda_makes_four_fusions_one() -> None:
    """As in the paper's tables: under Borda every label is held by every list."""
    lists = {"a": {1: 3.0, 2: 2.0, 3: 1.0}, "b": {4: 1.0, 3: 0.5}}
    orders = {
        tuple(label for label, _ in fuse(lists, "borda", name)) for name in ("combsum", "combmnz", "combanz", "combmed")
    }
    assert len(orders) == 1


def test_a_retriever_that_returned_nothing_has_no_list() -> None:
    for normalization in NORMALIZATIONS.names():
        for fusion in FUSIONS.names():
            known = {"evidence": {"a": EVIDENCE[0], "b": EVIDENCE[1]}}
            alone = fuse({"a": {1: 3.0, 2: 2.0, 3: 1.0}}, normalization, fusion, **known)
            with_empty = fuse({"a": {1: 3.0, 2: 2.0, 3: 1.0}, "b": {}}, normalization, fusion, **known)
            assert alone == with_empty


def test_equal_scores_go_by_label_id() -> None:
    assert fuse({"a": {9: 1.0, 2: 0.5}, "b": {4: 1.0, 2: 0.5}}, "min-max", "combmax") == [(4, 1.0), (9, 1.0), (2, 0.0)]


def test_metrics() -> None:
    # Hits at ranks 1 and 3; three relevant labels.
    assert evaluate([7, 1, 8], {7, 8, 9}, "precision", 5) == pytest.approx(2 / 5)
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert evaluate([7, 1, 8], {7, 8, 9}, "ndcg", 5) == pytest.approx((1 + 1 / 2) / ideal)
    assert evaluate([7, 1, 8], {7, 8, 9}, "ndcg", 1) == pytest.approx(1)
    assert evaluate([7, 1, 8], {7, 8, 9}, "ndcg", 5, ideal=1) == pytest.approx(1.5)
    assert evaluate([1], set(), "ndcg", 5) == 0
