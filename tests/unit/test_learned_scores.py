"""Learned fusions: the coefficients of logistic regression; scores as the model file defines them, to the bit, and as
LightGBM itself predicts them, but for the rounding of leaves."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import pytest
from scipy.optimize import minimize

from fusion.kernel.pools import Lists, Pools, Relevant, merge_lists
from fusion.models import features as features_module
from fusion.models.features import WHOLE, Features, feature_matrix, feature_names
from fusion.models.models import LinearModel, TreeModel, model_from_json, tree_model
from fusion.tuning.learners import LEAF_UNIT, SAID_TWICE, _tree, train_lambdamart, train_logistic

RETRIEVERS = ("bm25", "dense")
NAMES = feature_names(RETRIEVERS, True)
LABELS = 60


def made_up_pools(pools: int = 150, longest: int = 40) -> Pools:
    """Pools of two lists each, some of them empty; few distinct scores, so that features have equal values."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, longest, (pools, 2)) * (rng.random((pools, 2)) < 0.9)
    labels = [rng.permutation(LABELS)[:size] for size in sizes.ravel()]
    scores = [np.sort(rng.integers(1, 50, size) / 7)[::-1] for size in sizes.ravel()]
    stop = np.cumsum(sizes.ravel()).reshape(sizes.shape)
    label, score = np.concatenate(labels).astype(np.int32), np.concatenate(scores)
    nothing = np.zeros(pools, np.int64)
    relevant = Relevant(nothing, nothing, np.empty(0, np.int32))
    merged = merge_lists(Lists(stop - sizes, stop, label, score, np.empty(0, np.int8)), relevant, True)
    counts = rng.integers(0, 4, (2, LABELS - 5)).astype(np.int32)
    return replace(merged, train_texts=(counts, rng.integers(0, 2, pools)))


POOLS = made_up_pools()
MATRIX = feature_matrix(POOLS)


def scores_of(model: LinearModel | TreeModel, chosen: np.ndarray | None = None) -> np.ndarray:
    scores = np.full(len(MATRIX), np.nan)
    model.score(Features(POOLS, RETRIEVERS), np.arange(len(POOLS.source)) if chosen is None else chosen, scores)
    return scores


def restated(described: dict[str, Any], row: np.ndarray) -> float:
    """Of one candidate, from what a model file says."""
    values = dict(zip(NAMES, row.tolist(), strict=True))
    total = 0.0
    for tree in described["trees"]:
        node = 0 if tree["feature"] else -1
        while node >= 0:
            left = values[tree["feature"][node]] <= tree["threshold"][node]
            node = tree["left" if left else "right"][node]
        total += tree["value"][-1 - node]
    return total


def random_tree(rng: np.random.Generator, leaves: int) -> dict[str, list[Any]]:
    """Split at random leaf after leaf; most thresholds are values that candidates have."""
    tree: dict[str, list[Any]] = {key: [] for key in ("feature", "threshold", "left", "right")}
    ends: list[tuple[int, str]] = [(-1, "")]
    for node in range(leaves - 1):
        parent, side = ends.pop(rng.integers(len(ends)))
        if parent >= 0:
            tree[side][parent] = node
        feature = rng.integers(len(NAMES))
        tree["feature"].append(NAMES[feature])
        value = MATRIX[rng.integers(len(MATRIX)), feature] if rng.random() < 0.8 else rng.normal()
        tree["threshold"].append(float(value))
        for name in ("left", "right"):
            tree[name].append(0)
            ends.append((node, name))
    for leaf, (parent, side) in enumerate(ends):
        if parent >= 0:
            tree[side][parent] = -1 - leaf
    return {**tree, "value": (np.rint(rng.normal(size=leaves) / LEAF_UNIT) * LEAF_UNIT).tolist()}


@pytest.mark.parametrize("number", [21, 22])
@pytest.mark.parametrize("leaves", [1, 2, 8, 9, 16, 17, 33, 64, 65])
def test_trees_score_as_their_file_says(leaves: int, number: int) -> None:
    rng = np.random.default_rng(leaves)
    # Of 22 trees each has another to be looked up with; of 21, the last has none.
    trees = [random_tree(rng, int(size)) for size in [*rng.integers(1, leaves + 1, number - 2), leaves, 1]]
    described = tree_model(NAMES, trees, (leaves, len(trees))).to_json()
    model = model_from_json(described, None, "test")
    assert isinstance(model, TreeModel)
    scores = scores_of(model)
    assert scores[::7].tolist() == [restated(described, row) for row in MATRIX[::7]]
    assert len(np.unique(scores)) > 100 or leaves <= 2


def test_trees_do_without_what_other_features_say() -> None:
    absent, unseen = (MATRIX[:, NAMES.index(name)] == value for name, value in (("dense.present", 0), ("unseen", 1)))
    relevant = absent & unseen
    model = next(train_lambdamart(MATRIX, relevant, np.diff(POOLS.offset), NAMES, [(7, 20)], 0))
    assert len(NAMES) - len(model.features) == 5 and not any(name.endswith(SAID_TWICE) for name in model.features)
    scores = scores_of(model)
    assert 50 < relevant.sum() < len(relevant) / 2 and scores[relevant].min() > scores[~relevant].max()


def test_more_thresholds_than_fit_a_byte() -> None:
    rng = np.random.default_rng(1)
    trees = [random_tree(rng, 12) for _ in range(30)]
    for tree in trees:
        tree["feature"] = ["bm25.score"] * 11
        tree["threshold"] = rng.uniform(0, 7, 11).tolist()
    described = tree_model(NAMES, trees, (12, 30)).to_json()
    scores = scores_of(tree_model(NAMES, trees, (12, 30)))
    assert scores[::7].tolist() == [restated(described, row) for row in MATRIX[::7]]


@pytest.mark.parametrize("farthest", [8.0, 1e4, 1e308], ids=["even", "most in one bucket", "all in one bucket"])
def test_many_thresholds_at_values_and_next_to_them(farthest: float) -> None:
    """Values equal to a threshold, a bit above one and a bit below, however the thresholds are spread."""
    rng = np.random.default_rng(4)
    values = np.unique(MATRIX[:, NAMES.index("dense.score")])
    beside = [np.nextafter(values, -np.inf), values, np.nextafter(values, np.inf), [-farthest, farthest]]
    trees = [random_tree(rng, 12) for _ in range(20)]
    for tree in trees:
        tree["feature"] = ["dense.score"] * 11
        tree["threshold"] = rng.choice(np.concatenate(beside), 11).tolist()
    trees[0]["threshold"][:2] = [-farthest, farthest]
    described = tree_model(NAMES, trees, (12, 20)).to_json()
    scores = scores_of(tree_model(NAMES, trees, (12, 20)))
    assert scores[::7].tolist() == [restated(described, row) for row in MATRIX[::7]]


@pytest.mark.parametrize("leaves", [7, 15, 50, 90])
def test_trees_score_as_lightgbm_predicts(leaves: int) -> None:
    """Also where a value is the threshold itself, and for labels that lists lack."""
    rng = np.random.default_rng(leaves)
    target = MATRIX[:, :4].sum(axis=1) + rng.normal(size=len(MATRIX))
    settings = {"num_leaves": leaves, "min_data_in_leaf": 5, "use_missing": False, "verbosity": -1, "num_threads": 1}
    data = lightgbm.Dataset(MATRIX, target, free_raw_data=False)
    text = lightgbm.train(settings, data, num_boost_round=12).model_to_string()

    def with_ties(match: re.Match[str]) -> str:
        features, thresholds = match[1].split(), map(float, match[3].split())
        pairs = zip(map(int, features), thresholds, strict=True)
        ties = [MATRIX[np.argmin(np.abs(MATRIX[:, f] - threshold)), f] for f, threshold in pairs]
        return f"split_feature={match[1]}{match[2]}threshold={' '.join(repr(float(tie)) for tie in ties)}\n"

    text = re.sub(r"split_feature=([^\n]*)(\n.*?)threshold=([^\n]*)\n", with_ties, text, flags=re.DOTALL)
    # What a tree's text is long is written above it, which no longer holds.
    booster = lightgbm.Booster(model_str=re.sub(r"tree_sizes=[^\n]*\n", "", text))
    trees = [_tree(tree["tree_structure"], NAMES) for tree in booster.dump_model()["tree_info"]]
    cuts = {(name, cut) for tree in trees for name, cut in zip(tree["feature"], tree["threshold"], strict=True)}
    assert all(cut in MATRIX[:, NAMES.index(name)] for name, cut in cuts)
    assert (POOLS.position == -1).any()
    assert max(len(tree["value"]) for tree in trees) == leaves
    scores = scores_of(tree_model(NAMES, trees, (leaves, 12)))
    np.testing.assert_allclose(scores, booster.predict(MATRIX), rtol=0, atol=12 * LEAF_UNIT)
    # Sums of such values are exact.
    assert not np.any(scores / LEAF_UNIT % 1)


def test_coefficients_add_up_in_one_order() -> None:
    rng = np.random.default_rng(2)
    coefficients = rng.normal(size=len(NAMES)) * (rng.random(len(NAMES)) < 0.8)
    model = LinearModel(NAMES, tuple(coefficients.tolist()), 0.3, 1.0)
    whole = len(NAMES) // 4 * 4
    sums = np.zeros((4, len(MATRIX)))
    sums[0] = 0.3
    for n, coefficient in enumerate(coefficients):
        sums[n % 4 if n < whole else 0] += coefficient * MATRIX[:, n]
    np.testing.assert_array_equal(scores_of(model), (sums[0] + sums[1]) + (sums[2] + sums[3]))


def test_scores_do_not_depend_on_what_is_scored_together(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    models = [
        tree_model(NAMES[::-1], [random_tree(rng, 7) for _ in range(9)], (7, 9)),
        LinearModel(NAMES, tuple(rng.normal(size=len(NAMES)).tolist()), -1.0, 1.0),
    ]
    some = np.sort(rng.permutation(len(POOLS.source))[:40])
    inside = np.isin(np.repeat(np.arange(len(POOLS.source)), np.diff(POOLS.offset)), some)
    for model in models:
        together = scores_of(model)
        monkeypatch.setattr(features_module, "AT_ONCE", WHOLE)
        np.testing.assert_array_equal(scores_of(model), together)
        np.testing.assert_array_equal(scores_of(model, some), np.where(inside, together, np.nan))
        monkeypatch.undo()


def test_logistic_coefficients_are_those_of_a_general_optimizer() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((400, 3)) * [1, 5, 0.2] + [0, 3, -1]
    relevant = rng.random(400) < 1 / (1 + np.exp(-(matrix[:, 0] - matrix[:, 1] + 3)))
    (model,) = train_logistic(matrix, relevant, ["a", "b", "c"], [2.0])
    mean, scale = matrix.mean(axis=0), matrix.std(axis=0)
    rows = np.column_stack([(matrix - mean) / scale, np.ones(400)])

    def loss(weights: np.ndarray) -> float:
        score = rows @ weights
        return float(np.sum(np.logaddexp(0, score) - relevant * score) + np.sum(weights[:-1] ** 2))

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    assert np.allclose(model.coefficients, best[:-1] / scale, rtol=1e-3, atol=1e-4)


def test_a_constant_feature_has_no_coefficient() -> None:
    """Summing many equal rows rounds, so that their deviation is not quite 0."""
    rng = np.random.default_rng(0)
    signal = rng.standard_normal(300_000)
    matrix = np.column_stack([np.full(300_000, np.log(65)), signal])
    assert matrix.std(axis=0)[0] > 0
    (model,) = train_logistic(matrix, signal > rng.standard_normal(300_000), ["length", "signal"], [1.0])
    constant, of_signal = model.coefficients
    assert constant == 0 and 1 < of_signal < 3
