"""Job `run` on one machine: its last step needs no Spark, and says the same as with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs.evaluation import pipeline
from jobs.settings.config import load_config

ROOT = Path(__file__).parents[2]


@pytest.mark.drill
def test_small_data_is_evaluated_in_this_process(spark: SparkSession, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "prepare.folder": str(ROOT / "data/debtags"),
        "prepare.limit": 120,
        "prepare.folds": 2,
        "retrievers": ["bm25", "bm25-labels"],
        "work.path": str(tmp_path),
        "validation_candidates": False,
        "evaluate.randomizations": 100,
    }
    dataset = str(ROOT / "conf/datasets/debtags.yaml")
    chosen = {"auto": "local", "arrays": "arrays"}
    local, arrays = (
        pipeline.run(spark, load_config(dataset, {**settings, "grid.engine": engine})) for engine in chosen
    )
    assert [local.engine, arrays.engine] == list(chosen.values())
    assert local.metrics.equals(arrays.metrics)
