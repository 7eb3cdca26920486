"""ranx on the same candidates: the whole grid, and its five fast normalisations with the six Comb methods."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow.parquet as pq
from ranx import Qrels, Run, evaluate, fuse

NORMS = ["min-max", "max", "sum", "zmuv", "rank", "borda"]
COMB = ["min", "max", "med", "sum", "anz", "mnz"]
METHODS = [*COMB, "isr", "log_isr", "bordafuse", "condorcet"]
METRICS = ["ndcg@1", "ndcg@5", "ndcg@10", "precision@1", "precision@5", "precision@10"]
GROUPS = ("tail", "head", "all")


def load(folder: Path, retrievers: tuple[str, ...], texts: int) -> dict[str, tuple[list[Run], Qrels]]:
    """The first texts as ranx's own structures, for each label group and for all labels."""
    judged = pq.read_table(folder / "judgements.parquet" / "0.parquet").slice(0, texts).to_pylist()
    relevant = {str(row["text_id"]): {str(x): 1 for x in row["label_ids"]} for row in judged}
    lists: dict[str, list[dict[str, dict[str, float]]]] = {group: [] for group in GROUPS}
    for name in retrievers:
        rows = pq.read_table(folder / f"{name}.parquet" / "0.parquet", filters=[("text_id", "<", texts)]).to_pylist()
        runs: dict[str, dict[str, dict[str, float]]] = {group: {q: {} for q in relevant} for group in GROUPS}
        for row in rows:
            scores = dict(zip(map(str, row["label_ids"]), row["scores"], strict=True))
            runs[row["label_group"]][str(row["text_id"])] |= scores
            runs["all"][str(row["text_id"])] |= scores
        for group in GROUPS:
            lists[group].append(runs[group])
    return {group: ([Run(run) for run in lists[group]], Qrels(relevant)) for group in GROUPS}


def seconds(data: dict[str, tuple[list[Run], Qrels]], norms: list[str], methods: list[str]) -> float:
    """Fuse and evaluate every cell in every group, as ranx's user would."""
    begin = time.perf_counter()
    for runs, qrels in data.values():
        for norm in norms:
            for method in methods:
                evaluate(qrels, fuse(runs, norm=norm, method=method), METRICS)
    return time.perf_counter() - begin
