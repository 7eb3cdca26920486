"""What was chosen or learned: a cell, coefficients of features, or trees; each scores the candidates of pools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fusion.cells import Cell
from fusion.errors import InputError
from fusion.kernel.compiled import compiled
from fusion.types import Floats, Int32s


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

    def scores(self, matrix: Floats) -> Floats:
        """Of candidates by their features (candidates x features)."""
        return np.asarray(_linear(matrix, np.array(self.coefficients), self.intercept))

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

    def scores(self, matrix: Floats) -> Floats:
        tables = (self.first_node, self.first_leaf, self.feature, self.threshold, self.left, self.right, self.value)
        return np.asarray(_trees(matrix, *tables))

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


Model = ChosenCell | LinearModel | TreeModel


def tree_model(features: Sequence[str], trees: Sequence[Mapping[str, Any]], size: tuple[int, int]) -> TreeModel:
    """From trees as `to_json` has them."""
    number = {name: n for n, name in enumerate(features)}
    nodes, leaves = ([0, *np.cumsum([len(tree[key]) for tree in trees])] for key in ("threshold", "value"))

    def joined(key: str, kind: type) -> Any:
        return np.array([entry for tree in trees for entry in tree[key]], kind)

    return TreeModel(
        tuple(features),
        np.array(nodes, np.int32),
        np.array(leaves, np.int32),
        np.array([number[name] for tree in trees for name in tree["feature"]], np.int32),
        joined("threshold", np.float64),
        joined("left", np.int32),
        joined("right", np.int32),
        joined("value", np.float64),
        size,
    )


def model_from_json(described: Mapping[str, Any], cell: Cell | None, source: str) -> Model:
    """The model that `to_json` described; `cell` is the cell that it names."""
    try:
        if cell is not None:
            return ChosenCell(cell)
        if "coefficients" in described:
            coefficients = {str(name): float(value) for name, value in described["coefficients"].items()}
            values = tuple(coefficients.values())
            return LinearModel(tuple(coefficients), values, float(described["intercept"]), float(described["l2"]))
        leaves, trees = map(int, described["size"])
        return tree_model(described["features"], described["trees"], (leaves, trees))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{source}: not a model that can be read: {error!r}") from None


@compiled
def _linear(matrix, coefficients, intercept):  # type: ignore[no-untyped-def]
    # One order of summation, whatever the text block: the same scores everywhere. Of four sums none waits for another.
    scores = np.empty(matrix.shape[0])
    features = matrix.shape[1]
    for c in range(matrix.shape[0]):
        row = matrix[c]
        first, second, third, fourth = intercept, 0.0, 0.0, 0.0
        for f in range(0, features - 3, 4):
            first += coefficients[f] * row[f]
            second += coefficients[f + 1] * row[f + 1]
            third += coefficients[f + 2] * row[f + 2]
            fourth += coefficients[f + 3] * row[f + 3]
        for f in range(features // 4 * 4, features):
            first += coefficients[f] * row[f]
        scores[c] = (first + second) + (third + fourth)
    return scores


@compiled
def _trees(matrix, first_node, first_leaf, feature, threshold, left, right, value):  # type: ignore[no-untyped-def]
    scores = np.zeros(matrix.shape[0])
    for t in range(first_node.size - 1):
        nodes, leaves = first_node[t], first_leaf[t]
        empty = first_node[t + 1] == nodes
        for c in range(matrix.shape[0]):
            node = -1 if empty else 0
            while node >= 0:
                at = nodes + node
                node = left[at] if matrix[c, feature[at]] <= threshold[at] else right[at]
            scores[c] += value[leaves - 1 - node]
    return scores
