"""Random ranked lists for tests: as plain dictionaries, as the kernel's arrays, and as tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fusion.kernel.pools import Lists, Relevant
from fusion.kernel.texts import TextBlock

RETRIEVERS = ("bm25", "dense", "splade", "colbert")
Text = dict[str, dict[str, dict[int, float]]]
"""By retriever, by label group: label to score."""


def random_texts(
    rng: np.random.Generator, texts: int, retrievers: int = 2, longest: int = 20, ties: bool = True, tail: int = 30
) -> list[Text]:
    """Labels below `tail` are tail labels, the 20 above are head labels. Some lists are empty, many scores tie.
    Scores are what single precision can hold."""
    made = []
    for _ in range(texts):
        text: Text = {}
        for name in RETRIEVERS[:retrievers]:
            text[name] = {}
            for group, first, size in (("tail", 0, tail), ("head", tail, 20)):
                n = int(rng.integers(0, min(longest, size) + 1))
                labels = first + rng.choice(size, n, replace=False)
                scores = rng.normal(size=n) + (5 if name == "bm25" else 0)
                if ties:
                    scores = np.round(scores, 1)
                text[name][group] = dict(zip(labels.tolist(), scores.astype(np.float32).tolist(), strict=True))
        made.append(text)
    return made


def random_relevant(rng: np.random.Generator, texts: int, labels: int = 50) -> list[set[int]]:
    return [set(rng.choice(labels, rng.integers(1, 9), replace=False).tolist()) for _ in range(texts)]


def best_first(scores: dict[int, float]) -> list[tuple[int, float]]:
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))


def to_texts(texts: list[Text], relevant: list[set[int]], tail: int = 30) -> TextBlock:
    """The kernel's arrays, lists by group."""
    names = list(texts[0])
    start = np.zeros((len(texts), len(names), 2), np.int64)
    stop = start.copy()
    entries: list[tuple[int, float]] = []
    for q, text in enumerate(texts):
        for r, name in enumerate(names):
            for g, group in enumerate(("tail", "head")):
                start[q, r, g] = len(entries)
                entries += best_first(text[name][group])
                stop[q, r, g] = len(entries)
    flat = [label for labels in relevant for label in sorted(labels)]
    ends = np.cumsum([len(labels) for labels in relevant])
    return TextBlock(
        ("tail", "head"),
        start,
        stop,
        np.array([label for label, _ in entries], np.int32),
        np.array([score for _, score in entries], np.float64),
        np.empty(0, np.int8),
        Relevant(np.concatenate(([0], ends[:-1])), ends, np.array(flat, np.int32)),
        np.array([0 if label < tail else 1 for label in flat], np.int8),
    )


def whole(text: Text) -> dict[str, dict[int, float]]:
    """The lists of all labels."""
    return {name: {**groups["tail"], **groups["head"]} for name, groups in text.items()}


def of_group(text: Text, group: str) -> dict[str, dict[int, float]]:
    return {name: groups[group] for name, groups in text.items()}


def no_relevant(pools: int) -> Relevant:
    nothing = np.zeros(pools, np.int64)
    return Relevant(nothing, nothing, np.empty(0, np.int32))


def to_lists(texts: list[Text], group: str) -> Lists:
    return to_texts(texts, [set()] * len(texts)).lists(group)


def write_tables(
    folder: Path, texts: list[Text], relevant: list[set[int]], folds: int = 1, tail: int = 30
) -> dict[str, object]:
    """Candidates, judgements, label groups and folds as Parquet files; the settings that name them."""
    rows = [
        (retriever, q, group, [x for x, _ in best_first(scores)], [s for _, s in best_first(scores)])
        for q, text in enumerate(texts)
        for retriever, groups in text.items()
        for group, scores in groups.items()
        if scores
    ]
    columns = list(zip(*rows, strict=True))
    tables = {
        "candidates": pa.table(
            {
                "retriever": columns[0],
                "text_id": pa.array(columns[1], pa.int64()),
                "label_group": columns[2],
                "label_ids": pa.array(columns[3], pa.list_(pa.int32())),
                "scores": pa.array(columns[4], pa.list_(pa.float32())),
            }
        ),
        "judgements": pa.table(
            {
                "text_id": pa.array(range(len(texts)), pa.int64()),
                "label_ids": pa.array([list(labels) for labels in relevant], pa.list_(pa.int32())),
            }
        ),
        "labels": pa.table(
            {
                "label_id": pa.array(range(tail + 20), pa.int32()),
                "label_group": ["tail"] * tail + ["head"] * 20,
            }
        ),
        "folds": pa.table(
            {
                "fold": pa.array([q % folds for q in range(len(texts))], pa.int32()),
                "text_id": pa.array(range(len(texts)), pa.int64()),
            }
        ),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    settings: dict[str, object] = {
        "inputs.candidates": str(folder / "candidates.parquet"),
        "inputs.judgements": str(folder / "judgements.parquet"),
        "inputs.label_groups": str(folder / "labels.parquet"),
    }
    if folds > 1:
        settings["inputs.folds"] = str(folder / "folds.parquet")
    return settings
