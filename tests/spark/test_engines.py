"""The engines local, arrays and windows: the same bytes of every table, and the same kinds of data in and out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import xmtc_fusion as xf
from benchmarks.data import write_data
from jobs.evaluation import evaluate
from jobs.settings.config import load_config
from tests.lists import random_relevant, random_texts, write_tables
from tests.results import alike, plain_names

ENGINES = ("local", "arrays", "windows")


@pytest.fixture(scope="module")
def random(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Ties, empty lists and folds; names of labels and texts, as a prepared dataset has them."""
    rng = np.random.default_rng(21)
    texts, relevant = random_texts(rng, 200, retrievers=3), random_relevant(rng, 200)
    folder = tmp_path_factory.mktemp("random")
    inputs = write_tables(folder, texts, relevant, folds=4)
    for name, column, words in (("labels", "name", "label"), ("judgements", "text", "The words of")):
        table = pq.read_table(folder / f"{name}.parquet")
        named = pa.array([f"{words} {n}" for n in range(len(table))])
        pq.write_table(table.append_column(column, named), folder / f"{name}.parquet")
    return {**inputs, "grid.normalizations": "zmuv,borda", "grid.scope": "joint"}


@pytest.fixture(scope="module")
def shaped(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Lists of 64 labels as retrievers give them, of labels with frequencies as Zipf has them."""
    return {**write_data(tmp_path_factory.mktemp("shaped"), 400, 500), "grid.normalizations": "zmuv,sum"}


@pytest.fixture(scope="module")
def named(random: dict[str, object]) -> dict[str, object]:
    """Parameters, weights, subsets and policies, with normalisations that are more than a shift and a scale."""
    return {
        **random,
        "grid.normalizations": "l2,dbsf,softmax(temperature=[0.3,5]),sigmoid,none",
        "grid.fusions": "combsum,combmed,rrf(k=[1,60]),wsum(bm25=0.3,dense=2),weighted-condorcet(bm25=0.5)",
        "grid.subsets": "all",
        "grid.missing_labels": "minimum",
        "grid.constant_lists": "half",
        "grid.tied_labels": "mean_rank",
        "grid.scope": "group",
        "inputs.higher_is_better": {"dense": False},
        "evaluate.metrics": "ndcg@5",
        "evaluate.randomizations": 1000,
    }


@pytest.mark.parametrize("data", [pytest.param("random", marks=pytest.mark.drill), "shaped", "named"])
def test_all_tables_are_equal_to_the_byte(
    spark: SparkSession, tmp_path: Path, data: str, request: pytest.FixtureRequest
) -> None:
    settings = request.getfixturevalue(data)
    for engine in ENGINES:
        chosen = {"grid.engine": engine, "output.path": str(tmp_path / engine)}
        evaluate.run(None if engine == "local" else spark, load_config(None, {**settings, **chosen}))
    names = [name for name in plain_names(tmp_path / "local") if name != "config.yaml"]
    assert {"metrics.csv", "metrics.parquet", "comparisons.parquet", "bands.parquet", "run.json"} <= set(names)
    examples = pq.read_table(tmp_path / "local" / "examples.parquet")
    assert set(examples["outcome"].to_pylist()) == {"helped", "hurt"}
    assert any(examples["excerpt"].to_pylist()) == any(examples["label_names"].to_pylist()) == (data != "shaped")
    written = [alike({name: (tmp_path / engine / name).read_bytes() for name in names}) for engine in ENGINES]
    for name in names:
        assert len({files[name] for files in written}) == 1, name


def test_more_threads_than_one(shaped: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = load_config(None, {**shaped, "grid.engine": "local"})
    alone = evaluate.run(None, chosen)
    monkeypatch.setattr("jobs.engines.local.FEWEST_KEYS", 30)
    monkeypatch.setattr("jobs.engines.local.ROWS_AT_ONCE", 60)
    monkeypatch.setattr("jobs.engines.local.LocalEngine.workers", 4)
    together = evaluate.run(None, chosen)
    assert together.metrics == alone.metrics and together.details == alone.details


def test_spark_dataframes_in_and_out(spark: SparkSession) -> None:
    runs = {
        "bm25": pa.table({"text_id": ["a", "a", "b"], "label_id": ["x", "y", "x"], "score": [2.0, 1.0, 3.0]}),
        "dense": pa.table({"text_id": ["a", "b", "b"], "label_id": ["y", "x", "z"], "score": [0.9, 0.2, 0.8]}),
    }
    judgements = {"a": ["y"], "b": ["z"]}
    expected = xf.evaluate(judgements, runs, metrics="ndcg@3")
    frames = {"bm25": spark.createDataFrame(runs["bm25"]), "dense": runs["dense"]}
    result = xf.evaluate(judgements, frames, metrics="ndcg@3", spark=spark)
    assert result.engine == "arrays" and result.metrics == expected.metrics
    explained = xf.explain(frames, "a", "rank+combsum", judgements, spark=spark)
    assert explained.table == xf.explain(runs, "a", "rank+combsum", judgements).table and len(explained.table) == 2
    with pytest.raises(xf.InputError, match="no text 'c' among the 2 texts"):
        xf.explain(frames, "c", spark=spark)
    fused = xf.fuse(frames, "rank+combsum", spark=spark)
    assert isinstance(fused, DataFrame) and fused.columns == ["text_id", "label_id", "score"]
    wanted = xf.fuse(runs, "rank+combsum")
    assert sorted(map(tuple, fused.collect())) == sorted(map(tuple, (row.values() for row in wanted.to_pylist())))
    bad = spark.createDataFrame([("a", "x", float("nan"))], "text_id string, label_id string, score double")
    with pytest.raises(Exception, match="NaN"):
        xf.fuse({"bm25": bad, "dense": runs["dense"]}, "rank+combsum", spark=spark).collect()


def test_all_engines_learn_the_same(spark: SparkSession, random: dict[str, object], tmp_path: Path) -> None:
    """Trained fusions, from a share of the texts."""
    chosen = {**random, "grid.normalizations": "zmuv", "grid.scope": "group", "grid.train_share": 0.3}
    chosen |= {"grid.fusions": "bayesfuse,mapfuse,posfuse,probfuse(segments=5),segfuse,slidefuse"}
    chosen |= {"evaluate.metrics": "ndcg@5", "evaluate.details": False}
    for engine in ENGINES:
        settings = {**chosen, "grid.engine": engine, "output.path": str(tmp_path / engine)}
        evaluate.run(None if engine == "local" else spark, load_config(None, settings))
    assert len({(tmp_path / engine / "metrics.csv").read_bytes() for engine in ENGINES}) == 1


def test_rows_of_validation_texts(spark: SparkSession) -> None:
    """The engines agree on which texts runs set apart: for the figures, and for what trained fusions learn."""
    texts = [f"t{n}" for n in range(8)]
    roles = ["validation" if n % 2 else None if n % 4 else "test" for n in range(8)]
    lists = {"label_ids": [["x", "y", "z"]] * 8, "scores": [[3.0, 2.0, float(n)] for n in range(8)]}
    runs = {
        "bm25": pa.table({"text_id": texts, "role": roles, **lists}),
        "dense": pa.table({"text_id": texts, "label_ids": [["z", "y"]] * 8, "scores": [[0.9, 0.1]] * 8}),
    }
    judgements = {text: ["xyz"[n % 3]] for n, text in enumerate(texts)}
    local, arrays = (
        xf.evaluate(judgements, runs, cells=["zmuv+combmnz", "zmuv+posfuse"], metrics="ndcg@3", **engine)
        for engine in ({"engine": "local"}, {"engine": "arrays", "spark": spark})
    )
    assert arrays.metrics == local.metrics and arrays.input_counts == local.input_counts
    assert local.input_counts["judged_texts"] == 4 and local.input_counts["unjudged_texts"] == 0
