"""A folder with a dataset and a nightly configuration over it, for tests: small, and without Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from fusion.statistics.gate import Change
from jobs.nights import nightly
from jobs.nights.changes import ComparedFigure, Figure
from jobs.nights.checks import InputCounts
from jobs.nights.datasets import DatasetInputs, DatasetResults
from jobs.nights.delta import DeltaTables
from jobs.nights.history import History
from jobs.nights.lease import held_lease
from jobs.nights.night import DatasetNight, Night
from jobs.settings.config import Config, load_config
from tests.lists import Text, random_relevant, random_texts, write_tables

TEXTS = 400
Texts = tuple[list[Text], list[set[int]]]


def good_texts(texts: int = TEXTS) -> Texts:
    """Lists that find most relevant labels near the top."""
    rng = np.random.default_rng(1)
    made, relevant = random_texts(rng, texts, ties=False), random_relevant(rng, texts)
    for text, labels in zip(made, relevant, strict=True):
        for groups in text.values():
            for scores in groups.values():
                scores.update({label: scores[label] + 4 for label in scores if label in labels})
    return made, relevant


class Site:
    """A dataset, and nights over it."""

    def __init__(self, folder: Path, texts: Texts, dataset: str = "sample", folds: int = 2) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        nested: dict[str, Any] = {"dataset": dataset}
        for key, value in write_tables(folder, *texts, folds=folds).items():
            nested.setdefault("inputs", {})[key.split(".")[1]] = value
        self.dataset = folder / f"{dataset}.yaml"
        self.dataset.write_text(yaml.safe_dump(nested, allow_unicode=True))
        self.work = folder / "work"
        self.place = str(self.work / "history")

    def config(self, run_id: str, **settings: Any) -> Config:
        chosen = {
            "nightly.datasets": [str(self.dataset)],
            "nightly.run_id": run_id,
            "nightly.watch.metrics": ["ndcg@10"],
            "grid.cells": ["zmuv+combmnz", "rank+isr"],
            "evaluate.randomizations": 0,
            "evaluate.examples": 0,
            "work.path": str(self.work),
            "nightly.drift.overlap": 0.5,
            **{key.replace("__", "."): value for key, value in settings.items()},
        }
        return load_config(None, chosen)

    def run(self, run_id: str, spark: Any = None, **settings: Any) -> Night:
        return nightly.run(spark, self.config(run_id, **settings))

    def history(self, **about: Any) -> History:
        return History(self.place, **about)

    def verdicts(self) -> list[tuple[str, str, str]]:
        return [(row["run_id"], row["dataset"], row["verdict"]) for row in self.history().runs()]

    def degrade(self, share: float) -> None:
        """The labels of one retriever's lists in reverse order, for some of the texts."""

        def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
            for row in rows:
                if row["retriever"] == "dense" and row["text_id"] < share * TEXTS:
                    row["scores"] = row["scores"][::-1]
            return rows

        self.change("candidates", change)

    def change(self, table: str, change: Any) -> None:
        """Replace the rows of an input. Columns that it did not have come after the others."""
        path = self.folder / f"{table}.parquet"
        rows, schema = change(pq.read_table(path).to_pylist()), pq.read_schema(path)
        further = pa.Table.from_pylist([{name: row[name] for name in row if name not in schema.names} for row in rows])
        pq.write_table(pa.Table.from_pylist(rows, pa.schema([*schema, *further.schema])), path)


def lease_numbers(storage: Callable[[], DeltaTables], nights: int) -> list[int]:
    """The numbers of the leases of nights that want one at the same time; never do two of them hold it."""
    inside: list[int] = []
    most: list[int] = []
    numbers: list[int] = []

    def work(n: int) -> None:
        with held_lease(storage(), f"run-{n}", 30, wait=120) as lease:
            inside.append(n)
            most.append(len(inside))
            numbers.append(lease.number)
            time.sleep(0.05)
            inside.remove(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(nights)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    return sorted(numbers)


def sample_night(dataset: str = "Eurlex-4K") -> Night:
    """Two figures fell, one is lower over other texts, and an input changed."""
    cell = {"normalization": "zmuv", "fusion": "combmnz"}
    tail, head = (Figure(group, "ndcg", 10, **cell) for group in ("tail", "head"))
    drop = Change(
        baseline=0.284,
        tonight=0.223,
        difference=-0.061,
        low=-0.072,
        high=-0.05,
        paired=True,
        texts=10_043,
        p=1e-8,
        new=12,
        gone=3,
        tolerance=0.005,
    )
    single = drop._replace(baseline=0.26, tonight=0.19, difference=-0.07)
    apart = drop._replace(baseline=0.744, tonight=0.689, difference=-0.055, low=-0.12, high=0.01, p=0.08)
    apart = apart._replace(paired=False, texts=900, new=500, gone=400)
    same = apart._replace(baseline=0.6, tonight=0.6, difference=0.0, low=0.0, high=0.0, p=1.0)
    changes = {
        tail: (drop, 1e-7),
        tail._replace(normalization="single", fusion="dense"): (single, 1e-7),
        head: (apart, None),
        head._replace(normalization="single", fusion="bm25"): (same, None),
    }
    config = load_config(None, {"dataset": dataset, "nightly.tolerance": 0.5})
    fingerprints = {"data": '{"candidates": "a", "judgements": "b"}', "configuration": "c", "code": "d"}
    inputs = DatasetInputs(config, config, f"{dataset}.yaml", fingerprints)
    before = "2026-03-03"
    night = DatasetNight(
        DatasetResults(inputs, "results", built=True),
        InputCounts({}, pa.table({})),
        baseline={"run_id": before, **fingerprints, "data": '{"candidates": "c", "judgements": "b"}'},
        compared=tuple(ComparedFigure(figure, before, *change) for figure, change in changes.items()),
    )
    return Night("2026-03-04", "2026-03-04T02:00:00Z", datasets=(night,))


def quiet_night() -> Night:
    """The same without an alarm."""
    night = sample_night()
    return replace(night, datasets=(replace(night.datasets[0], compared=night.datasets[0].compared[3:]),))
