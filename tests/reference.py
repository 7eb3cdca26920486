"""One text, by the formulas alone: slow, plain, and what the kernel is tested against.

>>> lists = {"bm25": {7: 2.0, 3: 1.0}, "dense": {3: 0.9, 5: 0.3}}
>>> fuse(lists, "min-max", "combsum")
[(3, 1.0), (7, 1.0), (5, 0.0)]
>>> fuse(lists, "min-max", "wsum(dense=0.5)")
[(7, 1.0), (3, 0.5), (5, 0.0)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from fusion.grid.trained import Evidence
from fusion.kernel.candidates import CONSTANTS, DEFAULT, Policies
from fusion.kernel.pools import ListStatistics
from fusion.metrics import WHOLE
from fusion.registry import FUSIONS, METRICS, NORMALIZATIONS, Normalization, TextMetric
from fusion.types import Floats
from fusion.worth import JudgedTexts

Label = TypeVar("Label", int, str)


def ordered(scores: Mapping[Label, float]) -> list[Label]:
    """Labels by score descending, then label id ascending."""
    return sorted(scores, key=lambda label: (-scores[label], label))


def matrices(
    lists: Mapping[str, Mapping[Label, float]], normalization: str, policies: Policies = DEFAULT
) -> tuple[list[Label], Floats, Floats]:
    """The candidates of a text, ascending, with their normalised scores and 1-based ranks in every list
    (lists x candidates, NaN where a list lacks one). A retriever that returned nothing has no list."""
    entry = NORMALIZATIONS[normalization]
    filled = [scores for scores in lists.values() if scores]
    candidates = sorted({label for scores in filled for label in scores})
    x = np.full((len(filled), len(candidates)), np.nan)
    ranks = x.copy()
    for row, scores in enumerate(filled):
        labels = ordered(scores)
        places = [candidates.index(label) for label in labels]
        values = np.array([scores[label] for label in labels], dtype=np.float64)
        ranks[row, places] = np.arange(1, len(labels) + 1)
        if policies.tied == "mean_rank":
            ranks[row, places] = [1 + np.flatnonzero(values == value).mean() for value in values]
        if entry.imputed is not None:
            nothing = np.array(np.nan)
            size, among = np.array(len(labels)), np.array(len(candidates))
            x[row] = entry.imputed(
                ListStatistics(
                    size=size, low=nothing, high=nothing, total=nothing, mean=nothing, std=nothing, candidates=among
                )
            )
        elif policies.missing == "zero":
            x[row] = 0
        elif policies.missing == "minimum":
            x[row] = _normalized(entry, values, len(candidates), policies).min()
        x[row, places] = _normalized(entry, values, len(candidates), policies)
    return candidates, x, ranks


def _normalized(entry: Normalization, scores: Floats, candidates: int, policies: Policies) -> Floats:
    if entry.by_spread and policies.constant != "formula" and scores.min() == scores.max():
        return np.full(len(scores), CONSTANTS[policies.constant])
    return entry.plain(scores, candidates)


def fuse(
    lists: Mapping[str, Mapping[Label, float]],
    normalization: str,
    fusion: str,
    policies: Policies = DEFAULT,
    evidence: Mapping[str, Evidence] | None = None,
) -> list[tuple[Label, float]]:
    """The fused ranking of one text: labels and scores, best first. Trained fusions need evidence by retriever."""
    candidates, x, ranks = matrices(lists, normalization, policies)
    if not candidates:
        return []
    entry = FUSIONS[fusion]
    filled = [retriever for retriever, scores in lists.items() if scores]
    learned = [(evidence or {})[name] for name in filled] if entry.parameters.trained else None
    fused = entry.plain(x, ranks, **entry.arguments(filled, learned)).astype(np.float32)
    scores = dict(zip(candidates, fused.tolist(), strict=True))
    return [(label, scores[label]) for label in ordered(scores)]


def evaluate(
    ranking: list[Label], relevant: set[Label], metric: str, k: int = WHOLE, ideal: int | None = None
) -> float:
    """A metric of one ranking, every relevant label counting the same; `ideal`: the number of relevant labels the
    ideal ranking has (default: all)."""
    entry = METRICS[metric]
    assert isinstance(entry, TextMetric)
    number = np.array([len(relevant) if ideal is None else ideal])
    worth = entry.worth(k or max(len(ranking), 1), JudgedTexts(number))
    over = float(np.broadcast_to(worth.over, 1)[0]) + min(worth.listed, len(ranking))
    last = len(worth.by_rank) if worth.depth is None else min(int(worth.depth[0]), len(worth.by_rank))
    ranks = [place for place, label in enumerate(ranking[:last]) if label in relevant]
    gains = [worth.by_rank[rank] * (order if worth.counts == "running" else 1) for order, rank in enumerate(ranks, 1)]
    return float(sum(gains[:1] if worth.counts == "first" else gains) / over) if over else 0.0


def label_scores(
    neighbours: Sequence[tuple[int, float]],
    carried: Sequence[Sequence[int]],
    group: Mapping[int, str],
    aggregation: str,
    n: int,
) -> dict[str, list[tuple[int, float]]]:
    """From (training text, score) to (label, score) by label group, best first."""
    scores_of: dict[int, list[float]] = {}
    for text, score in neighbours:
        for label in carried[text]:
            scores_of.setdefault(label, []).append(float(score))
    aggregate = max if aggregation == "max" else sum
    scores = {label: float(np.float32(aggregate(values))) for label, values in scores_of.items()}
    ranked = sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
    return {name: [entry for entry in ranked if group[entry[0]] == name][:n] for name in sorted(set(group.values()))}
