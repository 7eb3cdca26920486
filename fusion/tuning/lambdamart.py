"""LambdaMART: boosted trees that learn to rank, trained by LightGBM (an extra). Scoring needs only the trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fusion.errors import SetupError
from fusion.tuning.models import TreeModel, tree_model
from fusion.types import Array, Floats, Ints

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
        raise SetupError("learned+lambdamart needs LightGBM: pip install 'xmtc-fusion[learned]'") from None
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
