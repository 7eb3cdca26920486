"""The two learners of fusions: logistic regression and LambdaMART."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fusion.compiled import compiled
from fusion.errors import SetupError
from fusion.models.models import LinearModel, TreeModel, tree_model
from fusion.types import Array, Floats, Ints, rounded

MOST_STEPS = 30
CLOSE = 1e-8
"""Steps end when the gain they promise is below this share of the loss."""
NO_SPREAD = 1e-6
"""A feature whose deviation is a smaller share of its mean is constant: the rest is what summing many rows rounds off,
and dividing by it would make an enormous coefficient."""


class Standardized(NamedTuple):
    """Rows of features with mean 0 and deviation 1, and a column of ones; features without spread are left out."""

    rows: Floats
    mean: Floats
    scale: Floats
    used: Array


def standardized(matrix: Floats) -> Standardized:
    mean, scale = matrix.mean(axis=0), matrix.std(axis=0)
    used = np.flatnonzero(scale > NO_SPREAD * np.maximum(np.abs(mean), 1.0))
    rows = np.ones((len(matrix), len(used) + 1))
    rows[:, :-1] = (matrix[:, used] - mean[used]) / scale[used]
    return Standardized(rows, mean[used], scale[used], used)


def train_logistic(
    matrix: Floats, relevant: Array, features: Sequence[str], strengths: Sequence[float]
) -> Iterator[LinearModel]:
    """One model per strength of the L2 penalty: sum(log(1 + exp(-+score))) + strength / 2 * sum(w^2), in which features
    have deviation 1 and the intercept is free. Every model starts from the one before."""
    table = standardized(matrix)
    target = relevant.astype(np.float64)
    weights = np.zeros(table.rows.shape[1])
    share = min(max(float(target.mean()), 1e-6), 1 - 1e-6)
    weights[-1] = np.log(share / (1 - share))
    for strength in strengths:
        penalty = np.full(len(weights), strength)
        penalty[-1] = 0.0
        weights = newton(partial(add_rows, table.rows, target, np.zeros(len(target))), weights, penalty)
        yield _plain(weights, table, features, strength)


Add = Callable[[Floats, Floats, Floats], float]
"""From weights to the loss; adds to its gradient and to the lower half of its curvature."""


def newton(add: Add, weights: Floats, penalty: Floats) -> Floats:
    """The weights of least loss plus penalty / 2 * weights^2, by Newton's steps that are halved until they gain."""
    loss, gradient, curvature = _sums(add, weights, penalty)
    for _ in range(MOST_STEPS):
        # A trace of the penalty keeps the equations solvable where features say the same.
        try:
            step = np.linalg.solve(curvature + np.diag(np.full(len(weights), 1e-8 * np.trace(curvature))), gradient)
        except np.linalg.LinAlgError:
            # Where all rows are relevant, the loss goes to nothing and leaves no direction.
            break
        promised = float(np.sum(step * gradient))
        length = 1.0
        while True:
            tried = weights - length * step
            new_loss, new_gradient, new_curvature = _sums(add, tried, penalty)
            if new_loss <= loss or length < 1e-6:
                break
            length /= 2
        if new_loss > loss:
            break
        weights, loss, gradient, curvature = tried, new_loss, new_gradient, new_curvature
        if promised < CLOSE * loss:
            break
    return weights


def _sums(add: Add, weights: Floats, penalty: Floats) -> tuple[float, Floats, Floats]:
    """The loss, its gradient and its curvature."""
    gradient, curvature = np.zeros(len(weights)), np.zeros((len(weights), len(weights)))
    loss = add(weights, gradient, curvature)
    curvature = np.tril(curvature) + np.tril(curvature, -1).T
    return loss + float(np.sum(penalty * weights**2)) / 2, gradient + penalty * weights, curvature + np.diag(penalty)


@compiled
def add_rows(rows, target, offset, weights, gradient, curvature) -> Any:  # type: ignore[no-untyped-def]
    """The loss of logistic regression on the rows, whose scores begin with an offset."""
    # Added up in the order of the rows by one thread, which a library of linear algebra does not promise.
    loss = 0.0
    for n in range(rows.shape[0]):
        row = rows[n]
        score = offset[n]
        for f in range(row.size):
            score += row[f] * weights[f]
        small = np.exp(-abs(score))
        loss += np.log1p(small) + max(score, 0.0) - target[n] * score
        probability = 1 / (1 + small) if score >= 0 else small / (1 + small)
        error, bend = probability - target[n], probability * (1 - probability)
        for f in range(row.size):
            gradient[f] += error * row[f]
            part = bend * row[f]
            for g in range(f + 1):
                curvature[f, g] += part * row[g]
    return loss


def _plain(weights: Floats, table: Standardized, features: Sequence[str], strength: float) -> LinearModel:
    """The model over the features as they are."""
    coefficients = np.zeros(len(features))
    coefficients[table.used] = weights[:-1] / table.scale
    intercept = float(weights[-1] - np.sum(weights[:-1] * table.mean / table.scale))
    return LinearModel(tuple(features), tuple(map(rounded, coefficients.tolist())), rounded(intercept), float(strength))


SETTINGS: dict[str, Any] = {
    "objective": "lambdarank",
    "learning_rate": 0.1,
    "min_data_in_leaf": 50,
    "lambdarank_truncation_level": 20,
    "max_bin": 127,
    "use_missing": False,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
LEAF_UNIT = 2.0**-32
"""Values of leaves are multiples of this: their sums are exact, and so the same in whatever order they are added."""
SAID_TWICE = ("log_rank", "present", "unseen")
"""Features that trees do without: thresholds of 1 / rank and of the number of training texts say the same."""
THREADS, ROWS_FOR_THREADS = 2, 200_000
"""Threads are fixed, so that their number changes no sum; few rows are faster without."""


def train_lambdamart(
    matrix: Floats,
    relevant: Array,
    candidates: Ints,
    features: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    seed: int,
) -> Iterator[TreeModel]:
    """One model per size (leaves of a tree, trees). `candidates`: the number of rows of each text, in order."""
    try:
        import lightgbm
    except ImportError:
        raise SetupError("learned+lambdamart needs LightGBM: pip install '.[learned]'") from None
    read = np.array([name.split(".")[-1] not in SAID_TWICE for name in features])
    features = [name for name, wanted in zip(features, read, strict=True) if wanted]
    # Texts without a relevant candidate say nothing about the order.
    first = np.concatenate(([0], np.cumsum(candidates)))
    told = np.add.reduceat(np.append(relevant, 0), first[:-1]) * (candidates > 0) > 0
    rows = np.repeat(told, candidates)
    common = {**SETTINGS, "num_threads": THREADS if rows.sum() >= ROWS_FOR_THREADS else 1}
    data = lightgbm.Dataset(
        matrix[np.ix_(rows, read)],
        relevant[rows].astype(np.int32),
        group=candidates[told],
        free_raw_data=False,
        params=common,
    )
    for leaves, trees in sizes:
        settings = {**common, "num_leaves": leaves, "seed": seed}
        booster = lightgbm.train(settings, data, num_boost_round=trees)
        described = [_tree(tree["tree_structure"], features) for tree in booster.dump_model()["tree_info"]]
        yield tree_model(features, described, (leaves, trees))


def _tree(root: Mapping[str, Any], features: Sequence[str]) -> dict[str, list[Any]]:
    """A tree as a model file has it."""
    made: dict[str, list[Any]] = {key: [] for key in ("feature", "threshold", "left", "right", "value")}

    def add(node: Mapping[str, Any]) -> int:
        if "split_feature" not in node:
            made["value"].append(round(node["leaf_value"] / LEAF_UNIT) * LEAF_UNIT)
            return -len(made["value"])
        number = len(made["feature"])
        made["feature"].append(features[node["split_feature"]])
        made["threshold"].append(float(node["threshold"]))
        for side in ("left", "right"):
            made[side].append(0)
        for side in ("left", "right"):
            made[side][number] = add(node[f"{side}_child"])
        return number

    add(root)
    return made
