"""What was chosen or learned: a cell, coefficients of features, or trees; each scores the candidates of pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fusion.cells import Cell
from fusion.compiled import compiled
from fusion.errors import InputError
from fusion.models.bands import BandModel, band_model
from fusion.models.features import OTHER, Features, feature_matrix, fill_features, list_of, room_for
from fusion.models.pooling import CalibratedModel, LogOddsModel, pooled_model
from fusion.models.tree_tables import MOST_LEAVES, TreeTables, put_scores, score_by_tables, tree_tables
from fusion.types import Floats, Int32s, Ints


@dataclass(frozen=True)
class ChosenCell:
    """A cell of the registry, with its weights and parameters."""

    cell: Cell

    def __str__(self) -> str:
        return str(self.cell)

    def to_json(self) -> dict[str, Any]:
        return {"cell": str(self.cell)}


@dataclass(frozen=True)
class LinearModel:
    """A sum of features times coefficients."""

    features: tuple[str, ...]
    coefficients: tuple[float, ...]
    intercept: float
    l2: float

    def __str__(self) -> str:
        largest = sorted(zip(self.features, self.coefficients, strict=True), key=lambda item: -abs(item[1]))[:3]
        shown = ", ".join(f"{name} {value:+.3g}" for name, value in largest)
        return f"l2={self.l2:g}: {shown}, ..."

    def score(self, features: Features, pools: Ints, scores: Floats) -> None:
        """Fill in the scores of the candidates of some pools."""
        names, sum_of, coefficients = self._terms
        rows, wanted = features.rows(names)
        _score_linear(features.source, pools, wanted, rows, sum_of, coefficients, self.intercept, scores)

    @cached_property
    def _terms(self) -> tuple[tuple[str, ...], Ints, Floats]:
        """The features that have a coefficient, which of the four sums each adds to by its place among all, and the
        coefficients; sum after sum."""
        used = np.flatnonzero(self.coefficients)
        sum_of = np.where(used < len(self.features) // 4 * 4, used % 4, 0)
        order = np.argsort(sum_of, kind="stable")
        used, sum_of = used[order], sum_of[order]
        return tuple(self.features[n] for n in used), sum_of, np.array(self.coefficients)[used]

    def parts(self, features: Features) -> dict[str, Floats]:
        """What each retriever adds to the scores of all candidates, and what is left."""
        names, matrix = features.names, feature_matrix(features.pools)
        parts = {name: np.zeros(len(matrix)) for name in (*features.retrievers, OTHER)}
        parts[OTHER] += self.intercept
        for name, coefficient in zip(self.features, self.coefficients, strict=True):
            parts[list_of(name, features.retrievers)] += coefficient * matrix[:, names.index(name)]
        return parts

    def to_json(self) -> dict[str, Any]:
        coefficients = dict(zip(self.features, self.coefficients, strict=True))
        return {"l2": self.l2, "intercept": self.intercept, "coefficients": coefficients}


@dataclass(frozen=True)
class TreeModel:
    """A sum of trees. At a node, a candidate whose feature is at most the threshold goes left; a child below 0 is the
    leaf of number -1 - child."""

    features: tuple[str, ...]
    first_node: Int32s
    """Where the nodes of each tree begin, and at the end where the last one's end; leaves likewise."""
    first_leaf: Int32s
    feature: Int32s
    threshold: Floats
    left: Int32s
    right: Int32s
    value: Floats
    size: tuple[int, int]
    """The greatest number of leaves, and the number of trees."""

    def __str__(self) -> str:
        leaves, trees = self.size
        return f"{trees} trees of {leaves} leaves"

    def score(self, features: Features, pools: Ints, scores: Floats) -> None:
        """Fill in the scores of the candidates of some pools."""
        if self._tables is None:
            rows, wanted = features.rows(self.features)
            trees = (self.first_node, self.first_leaf, rows[self.feature], self.threshold, self.left, self.right)
            _score_by_walking(features.source, pools, wanted, *trees, self.value, scores)
            return
        rows, wanted = features.rows(self._used)
        score_by_tables(features.source, pools, wanted, self._tables, rows, scores)

    @cached_property
    def _tables(self) -> TreeTables | None:
        """None for trees with too many leaves."""
        if np.diff(self.first_leaf).max(initial=0) > MOST_LEAVES:
            return None
        return tree_tables(
            self.first_node, self.first_leaf, self.feature, self.threshold, self.left, self.right, self.value
        )

    @cached_property
    def _used(self) -> tuple[str, ...]:
        """The features that some node tests, as the tables have them."""
        return tuple(self.features[f] for f in np.unique(self.feature))

    def parts(self, features: Features) -> dict[str, Floats]:
        """Trees have no parts by retriever."""
        return {}

    def to_json(self) -> dict[str, Any]:
        trees = []
        for t in range(len(self.first_node) - 1):
            nodes = slice(int(self.first_node[t]), int(self.first_node[t + 1]))
            leaves = slice(int(self.first_leaf[t]), int(self.first_leaf[t + 1]))
            trees.append(
                {
                    "feature": [self.features[f] for f in self.feature[nodes]],
                    "threshold": self.threshold[nodes].tolist(),
                    "left": self.left[nodes].tolist(),
                    "right": self.right[nodes].tolist(),
                    "value": self.value[leaves].tolist(),
                }
            )
        return {"size": list(self.size), "features": list(self.features), "trees": trees}


Scorer = LinearModel | TreeModel | BandModel | CalibratedModel | LogOddsModel
"""Models that score candidates themselves."""
Model = ChosenCell | Scorer


def tree_model(features: Sequence[str], trees: Sequence[Mapping[str, Any]], size: tuple[int, int]) -> TreeModel:
    """From trees as `to_json` has them."""
    number = {name: n for n, name in enumerate(features)}
    nodes, leaves = ([0, *np.cumsum([len(tree[key]) for tree in trees])] for key in ("threshold", "value"))

    def joined(key: str, kind: type) -> Any:
        return np.array([entry for tree in trees for entry in tree[key]], kind)

    return TreeModel(
        features=tuple(features),
        first_node=np.array(nodes, np.int32),
        first_leaf=np.array(leaves, np.int32),
        feature=np.array([number[name] for tree in trees for name in tree["feature"]], np.int32),
        threshold=joined("threshold", np.float64),
        left=joined("left", np.int32),
        right=joined("right", np.int32),
        value=joined("value", np.float64),
        size=size,
    )


def model_from_json(described: Mapping[str, Any], cell: Cell | None, source: str) -> Model:
    """The model that `to_json` described; `cell` is the cell that it names."""
    try:
        if cell is not None:
            return ChosenCell(cell)
        if "calibration" in described:
            return pooled_model(described)
        if "bonus" in described:
            return band_model(described)
        if "coefficients" in described:
            coefficients = {str(name): float(value) for name, value in described["coefficients"].items()}
            values, intercept = tuple(coefficients.values()), float(described["intercept"])
            _check_finite([*values, intercept])
            return LinearModel(tuple(coefficients), values, intercept, float(described["l2"]))
        leaves, trees = map(int, described["size"])
        for tree in described["trees"]:
            _check_tree(tree)
        return tree_model(described["features"], described["trees"], (leaves, trees))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{source}: not a model that can be read: {error!r}") from None


def _check_tree(tree: Mapping[str, Any]) -> None:
    """Refuse what is no tree: else a walk from its root might not end, or leave it."""
    nodes, leaves = len(tree["threshold"]), len(tree["value"])
    children = [*range(-leaves, 0), *range(1, nodes)] if nodes else []
    if not len(tree["feature"]) == len(tree["left"]) == len(tree["right"]) == nodes:
        raise ValueError("the nodes of a tree lack something")
    if sorted([*tree["left"], *tree["right"]]) != children or not leaves:
        raise ValueError("each node of a tree but the first, and each leaf, must be a child once")
    _check_finite([*tree["threshold"], *tree["value"]])


def _check_finite(numbers: Sequence[float]) -> None:
    if not np.isfinite(numbers).all():
        raise ValueError("NaN or an infinite number")


@compiled
def _score_linear(source, pools, wanted, rows, sum_of, coefficients, intercept, scores):  # type: ignore[no-untyped-def]
    # One order of summation, whatever the text block: the same scores everywhere. Features add to four sums in turn.
    width = room_for(source, pools)
    x = np.empty((wanted.size, width))
    sums = np.empty((4, width))
    total = np.empty(width)
    first = 0
    while first < pools.size:
        bounds = fill_features(source, pools, first, wanted, x)
        candidates = bounds[-1]
        sums[0] = intercept
        sums[1:] = 0.0
        f = 0
        while f < rows.size:
            # Four features of a sum in one loop: a sum is read and written less often.
            if f + 4 <= rows.size and sum_of[f + 3] == sum_of[f]:
                _add_four(x, rows[f : f + 4], coefficients[f : f + 4], candidates, sums[sum_of[f]])
                f += 4
            else:
                _add_one(x[rows[f]], coefficients[f], candidates, sums[sum_of[f]])
                f += 1
        for c in range(candidates):
            total[c] = (sums[0, c] + sums[1, c]) + (sums[2, c] + sums[3, c])
        first = put_scores(total, bounds, source.offset, pools, first, scores)


@compiled
def _add_four(x, rows, coefficients, candidates, total):  # type: ignore[no-untyped-def]
    a, b, c, d = x[rows[0]], x[rows[1]], x[rows[2]], x[rows[3]]
    of_a, of_b, of_c, of_d = coefficients[0], coefficients[1], coefficients[2], coefficients[3]
    for n in range(candidates):
        total[n] = (((total[n] + of_a * a[n]) + of_b * b[n]) + of_c * c[n]) + of_d * d[n]


@compiled
def _add_one(feature, coefficient, candidates, total):  # type: ignore[no-untyped-def]
    for n in range(candidates):
        total[n] += coefficient * feature[n]


@compiled
def _score_by_walking(source, pools, wanted, first_node, first_leaf, row, threshold, left, right, value, scores):  # type: ignore[no-untyped-def]
    """For trees with too many leaves for tables: every candidate goes from node to node."""
    width = room_for(source, pools)
    x, total = np.empty((wanted.size, width)), np.empty(width)
    first = 0
    while first < pools.size:
        bounds = fill_features(source, pools, first, wanted, x)
        candidates = bounds[-1]
        total[:] = 0.0
        for t in range(first_node.size - 1):
            nodes, leaves = first_node[t], first_leaf[t]
            empty = first_node[t + 1] == nodes
            for c in range(candidates):
                node = -1 if empty else 0
                while node >= 0:
                    at = nodes + node
                    node = left[at] if x[row[at], c] <= threshold[at] else right[at]
                total[c] += value[leaves - 1 - node]
        first = put_scores(total, bounds, source.offset, pools, first, scores)
