"""Labels without training texts: how many there are, and that no fusion which is recommended loses by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.datasets import prepare
from jobs.engines.spark import SparkEngine
from jobs.evaluation import pipeline as pipeline
from jobs.evaluation.evaluate import run as evaluate
from jobs.evaluation.result import read_results
from jobs.reporting.dataset import DatasetReport
from jobs.retrievers import driver
from jobs.settings.config import Config, load_config
from jobs.storage.stages import run_stage
from jobs.storage.workspace import Workspace

pytestmark = pytest.mark.drill

ROOT = Path(__file__).parents[2]
TEXTS, FOLDS = 1500, 3
BY_WORDS = ["bm25-labels", "dense", "static"]
"""The retrievers that find labels by their words."""
RETRIEVERS = ["bm25", *BY_WORDS]
FUSED = {
    # Neither is much weaker than the other.
    "dense and static": (["dense", "static"], {}),
    # One that cannot return cold labels is in the mix, so that the fusion of some retrievers has to be found.
    "all, and every subset": (
        RETRIEVERS,
        {"grid.subsets": "all", "grid.normalizations": ["zmuv", "min-max"], "grid.fusions": ["combmnz", "combsum"]},
    ),
}


def configure(work: Path, dataset: str, **settings: Any) -> Config:
    chosen = {
        "dataset": dataset,
        "work.path": str(work),
        "prepare.folder": str(ROOT / "data" / "debtags"),
        "prepare.limit": TEXTS,
        "prepare.folds": FOLDS,
        "spark.partitions": 2,
        "retrievers": RETRIEVERS,
        "retrievers.dense.max_length": 64,
        "evaluate.metrics": ["ndcg@10", "precision@1"],
        **settings,
    }
    return load_config(str(ROOT / "conf" / "datasets" / "debtags.yaml"), chosen)


def take_out(prepared: Path, folder: Path) -> set[int]:
    """The tables of one fold with every third label taken out of its training and validation texts; those labels."""
    labels = pq.read_table(prepared / "labels.parquet").sort_by("label_id").to_pylist()
    cold = {row["label_id"] for row in labels if row["label_id"] % 3 == 0}
    folds = pq.read_table(prepared / "folds.parquet").to_pylist()
    role = {row["text_id"]: row["role"] for row in folds if row["fold"] == 0}
    samples = []
    for row in pq.read_table(prepared / "samples.parquet").to_pylist():
        kept = row["label_ids"] if role[row["text_id"]] == "test" else [n for n in row["label_ids"] if n not in cold]
        samples.append({**row, "label_ids": kept})
    tables = {
        "samples": pa.Table.from_pylist(samples, pq.read_table(prepared / "samples.parquet").schema),
        "labels": pq.read_table(prepared / "labels.parquet"),
        "folds": pa.Table.from_pylist(
            [row for row in folds if row["fold"] == 0], pq.read_table(prepared / "folds.parquet").schema
        ),
    }
    for name, table in tables.items():
        pq.write_table(table, folder / f"{name}.parquet")
    return cold


@pytest.fixture(scope="module")
def cold_dataset(spark, tmp_path_factory) -> tuple[Path, set[int]]:
    work = tmp_path_factory.mktemp("cold")
    statistics = prepare.run(SparkEngine(spark), configure(work, "whole"))
    assert statistics["cold_shares"]["all"] < 0.1
    prepared = Path(Workspace(str(work), "whole").prepared)
    labels: set[int] = set()

    def build(folder: Any) -> dict[str, int]:
        labels.update(take_out(prepared, Path(folder.uri.removeprefix("file://"))))
        return {"labels": len(labels)}

    run_stage("prepare", Workspace(str(work), "cold").prepared, {"texts": TEXTS}, build)
    return work, labels


def test_prepare_counts_cold_pairs(spark, cold_dataset) -> None:
    """Against a count in plain Python."""
    work, _ = cold_dataset
    place = Workspace(str(work), "whole")
    statistics = json.loads(Path(place.statistics).read_text())
    carried = {row["text_id"]: row["label_ids"] for row in pq.read_table(place.samples).to_pylist()}
    group = {row["label_id"]: row["label_group"] for row in pq.read_table(place.labels).to_pylist()}
    folds = pq.read_table(place.folds).to_pylist()
    cold, tested = {"head": 0, "tail": 0}, {"head": 0, "tail": 0}
    for fold in range(FOLDS):
        roles = {row["text_id"]: row["role"] for row in folds if row["fold"] == fold}
        trained = {label for text, role in roles.items() if role == "train" for label in carried[text]}
        for label in (label for text, role in roles.items() if role == "test" for label in carried[text]):
            tested[group[label]] += 1
            cold[group[label]] += label not in trained
    assert cold["tail"] > 0
    wanted = {name: cold[name] / tested[name] for name in cold} | {"all": sum(cold.values()) / sum(tested.values())}
    assert statistics["cold_shares"] == pytest.approx(wanted)
    shown = f"labels without training texts: {100 * wanted['all']:.1f}% of the test pairs ("
    assert prepare.summary(statistics).splitlines()[-1].startswith(shown)


@pytest.fixture(scope="module")
def candidates(spark, cold_dataset) -> dict[str, str]:
    return driver.run(SparkEngine(spark, 2), configure(cold_dataset[0], "cold"))


@pytest.mark.parametrize("fused", FUSED)
def test_no_recommended_fusion_loses_to_its_best_retriever(spark, cold_dataset, candidates, fused: str) -> None:
    """Not in tail, head or all labels, by what the report says about the dataset with cold labels."""
    retrievers, settings = FUSED[fused]
    config = configure(cold_dataset[0], "cold", **settings)
    evaluated = pipeline.evaluated(config, {name: candidates[name] for name in retrievers})
    evaluate(spark, evaluated)
    recommended = DatasetReport(read_results([evaluated.output.path])[0], "queries", 0.05).recommendation
    assert recommended is not None
    assert {standing.aspect.label_group for standing in recommended.standings} == {"tail", "head", "all"}
    for standing in recommended.standings:
        best = max(value.mean for value in standing.singles.values())
        assert standing.value.mean >= best, (standing.aspect, recommended.cell)


def test_cold_labels_are_found_by_their_words(cold_dataset, candidates) -> None:
    """All three list labels that no training text carries, and rank right ones first far more than by chance."""
    work, cold = cold_dataset
    place = Workspace(str(work), "cold")
    carried = {row["text_id"]: set(row["label_ids"]) for row in pq.read_table(place.samples).to_pylist()}
    for name in BY_WORDS:
        right, chance = [], []
        for row in pq.read_table(place.candidate_lists(name), filters=[("role", "=", "test")]).to_pylist():
            listed = [label for label in row["label_ids"] if label in cold]
            if listed and carried[row["text_id"]] & cold:
                right.append(listed[0] in carried[row["text_id"]])
                chance.append(len(carried[row["text_id"]] & cold) / len(cold))
        assert np.mean(right) > 5 * np.mean(chance), name
