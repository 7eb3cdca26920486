"""Runs with many ties and judgements with grades, with ids on whose order tools disagree, for parity tests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import xmtc_fusion as xf

Run = dict[str, dict[str, float]]
LABELS = [*(str(n) for n in (1, 2, 9, 10, 19, 100)), *(f"d{n}" for n in range(40)), "D7", "é", "z"]
CELLS = ["min-max+combsum", "rank+combmax", "zmuv+isr"]


class Data(NamedTuple):
    """Runs by name, and the grades of each text."""

    runs: dict[str, Run]
    grades: dict[str, dict[str, int]]

    def rankings(self) -> dict[str, Run]:
        """The scores of every retriever, and those that cells make of them, by the names of the cells."""
        fused = xf.fuse(self.runs, CELLS, top=1000, engine="local")
        return {**{f"single+{name}": run for name, run in self.runs.items()}, **fused}


def many_ties(seed: int, runs: int, graded: bool, texts: int = 30) -> Data:
    """Scores are multiples of 1/4 plus, for some, less than single precision can hold."""
    rng = np.random.default_rng(seed)
    made: dict[str, Run] = {}
    for r in range(runs):
        made[f"r{r}"] = {}
        for q in range(texts):
            labels = rng.choice(LABELS, rng.integers(1, len(LABELS)), replace=False)
            scores = rng.integers(-4, 12, len(labels)) / 4 + rng.choice([0, 1e-9], len(labels))
            # Python's numbers and strings, since not every tool takes numpy's.
            made[f"r{r}"][f"t{q}"] = {str(x): float(s) for x, s in sorted(zip(labels, scores, strict=True))}
    judged = {}
    for q in range(texts):
        labels = rng.choice(LABELS, rng.integers(4, 20), replace=False)
        grades = rng.integers(0, 4 if graded else 2, len(labels))
        judged[f"t{q}"] = {str(x): int(g) for x, g in sorted(zip(labels, grades, strict=True))}
        # One of each, so that no tool divides by zero.
        judged[f"t{q}"] |= {"d0": 3 if graded else 1, "d1": 0}
    return Data(made, judged)


def our_figures(data: Data, metrics: list[str], **settings: object) -> dict[tuple[str, str], float]:
    """By cell and metric."""
    chosen = {"evaluate.details": False, **{f"evaluate.{name}": value for name, value in settings.items()}}
    found = xf.evaluate(data.grades, data.runs, metrics=metrics, cells=CELLS, engine="local", settings=chosen)
    return {
        (
            f"{row['normalization']}+{row['fusion']}",
            f"{row['metric']}@{row['k']}" if row["k"] else row["metric"],
        ): row["value"]
        for row in found.metrics.to_pylist()
    }
