"""Tuning on Spark: the same choices, models, figures and fused lists as in this process, to the byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import xmtc_fusion as xf
from fusion.cells import LEARNED
from fusion.models.strategies import STRATEGIES
from jobs.evaluation import fuse
from jobs.settings.config import load_config
from tests.tuning_data import tuning_data
from xmtc_fusion.api import _sources_of

DATA = tuning_data(60)
SETTINGS = {
    "grid.normalizations": ["zmuv", "borda"],
    "grid.fusions": ["combmnz", "isr"],
    "tune.settings": 40,
    "tune.passes": 1,
    "tune.curve": [],
    "tune.trees": [[4, 5]],
    "tune.l2": [1],
    "evaluate.metrics": ["ndcg@10"],
    "evaluate.randomizations": 1000,
    "spark.partitions": 3,
}


@pytest.fixture(scope="module")
def in_process() -> xf.Tuned:
    return xf.tune(**DATA.arguments(), engine="local", settings=SETTINGS)


@pytest.mark.parametrize("engine", ["arrays", pytest.param("windows", marks=pytest.mark.drill)])
def test_engines_agree(spark: SparkSession, in_process: xf.Tuned, engine: str) -> None:
    result = xf.tune(**DATA.arguments(), engine=engine, settings=SETTINGS, spark=spark)
    assert result.metrics.equals(in_process.metrics)
    assert result.choices.equals(in_process.choices)
    assert result._result.model == in_process._result.model
    for name in ("comparisons", "bands"):
        assert result.details[name].equals(in_process.details[name])


@pytest.mark.parametrize("strategy", [str(cell) for cell in STRATEGIES if cell.normalization == LEARNED])
def test_a_deployed_model_fuses_alike(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    chosen = {**SETTINGS, "tune.strategies": [strategy], "evaluate.details": False}
    path = xf.tune(**DATA.arguments(), engine="local", settings=chosen).save_model(f"{tmp_path}/model.json")
    assert json.loads(Path(path).read_text())["label_groups"]["tail"]["strategy"] == strategy
    rows = {}
    for engine, session in (("local", None), ("arrays", spark)):
        config = load_config(None, {"fuse.model": path, "grid.engine": engine, "spark.partitions": 3})
        fused = fuse.fused_rows(session, config, _sources_of(config, training=None, **DATA.arguments()))
        listed = fused.to_pylist() if session is None else [row.asDict() for row in fused.drop("problems").collect()]
        rows[engine] = sorted(listed, key=lambda row: (row["label_group"], row["fold"], row["text_id"]))
    assert rows["local"] == rows["arrays"] and len(rows["local"]) > 100
