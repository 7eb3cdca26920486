"""Judged texts with ranked lists and folds with roles, for tests of `tune`: what is relevant can be learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

LABELS, TAIL = 60, 45
FOLDS = 3


@dataclass(frozen=True)
class Data:
    """The arguments of `xf.tune`."""

    judgements: dict[int, list[int]]
    runs: dict[str, pa.Table]
    folds: pa.Table
    label_groups: pa.Table

    def arguments(self) -> dict[str, object]:
        return {
            "judgements": pa.table(
                {
                    "text_id": pa.array(list(self.judgements), pa.int64()),
                    "label_ids": pa.array(list(self.judgements.values()), pa.list_(pa.int32())),
                    "words": pa.array([7 * text for text in self.judgements], pa.int32()),
                }
            ),
            "runs": self.runs,
            "folds": self.folds,
            "label_groups": self.label_groups,
        }

    def test_texts(self, fold: int) -> list[int]:
        return [row["text_id"] for row in self.folds.to_pylist() if (row["fold"], row["role"]) == (fold, "test")]


def tuning_data(texts: int = 120, seed: int = 0, top: int = 12) -> Data:
    """Two retrievers of unequal worth, whose lists come by fold and role. Frequent labels are more often relevant."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, LABELS + 1)
    labels = rng.permutation(LABELS)
    judgements = {
        text: sorted(
            int(label) for label in rng.choice(labels, rng.integers(2, 6), replace=False, p=share / share.sum())
        )
        for text in range(texts)
    }
    roles = rng.permuted(np.tile(np.arange(FOLDS), -(-texts // FOLDS))[:texts])
    held = rng.random((FOLDS, texts)) < 0.4
    rows = [
        {
            "fold": fold,
            "text_id": text,
            "role": "test" if roles[text] == fold else "validation" if held[fold, text] else "train",
        }
        for fold in range(FOLDS)
        for text in range(texts)
    ]
    folds = pa.Table.from_pylist(
        rows, pa.schema([("fold", pa.int32()), ("text_id", pa.int64()), ("role", pa.string())])
    )
    groups = np.where(np.isin(np.arange(LABELS), labels[: LABELS - TAIL]), "head", "tail")
    label_groups = pa.table({"label_id": pa.array(range(LABELS), pa.int32()), "label_group": pa.array(groups)})
    runs = {
        name: _run(rng, rows, judgements, groups, signal, scale, top)
        for name, signal, scale in (("bm25", 1.0, 8.0), ("dense", 1.8, 0.3))
    }
    return Data(judgements, runs, folds, label_groups)


def _run(rng: np.random.Generator, rows, judgements, groups, signal: float, scale: float, top: int) -> pa.Table:
    lists = []
    for row in rows:
        if row["role"] == "train":
            continue
        scores = rng.normal(size=LABELS)
        scores[judgements[row["text_id"]]] += signal
        for group in ("head", "tail"):
            mine = np.flatnonzero(groups == group)
            best = mine[np.argsort(-scores[mine])][: int(rng.integers(0, top + 1))]
            if len(best):
                lists.append(
                    {**row, "label_group": group, "label_ids": best.tolist(), "scores": (scale * scores[best]).tolist()}
                )
    schema = pa.schema(
        [
            ("fold", pa.int32()),
            ("text_id", pa.int64()),
            ("role", pa.string()),
            ("label_group", pa.string()),
            ("label_ids", pa.list_(pa.int32())),
            ("scores", pa.list_(pa.float32())),
        ]
    )
    return pa.Table.from_pylist(lists, schema)
