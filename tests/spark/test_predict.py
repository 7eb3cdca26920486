"""A model gives the same labels in this process and in Spark's workers, in every format and to the byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from jobs.prediction import predict
from jobs.settings.config import load_config
from tests.models import fitted, mlflow_store, new_texts, write_lines


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return fitted(tmp_path_factory.mktemp("fitted"))


def labelled(place: Path, model: Path, texts: str, kind: str, spark: Any = None) -> Path:
    """The folder of predictions."""
    chosen = {"predict.model": str(model), "predict.texts": texts, "predict.format": kind, "predict.top": 4}
    engine = "local" if spark is None else "arrays"
    predict.run(load_config(None, {**chosen, "grid.engine": engine, "output.path": str(place)}), spark)
    return place


@pytest.mark.parametrize("kind", ["jsonl", "csv", "trec"])
def test_files_of_both_engines_are_equal_to_the_byte(spark, model, tmp_path, kind: str) -> None:
    """In the order of the lines, which is not that of the ids."""
    ids = [f"t{n}" for n in np.random.default_rng(0).permutation(len(new_texts()))]
    texts = write_lines(tmp_path / "new.jsonl", ids)
    here = labelled(tmp_path / "here", model, texts, kind)
    there = labelled(tmp_path / "there", model, texts, kind, spark)
    written = (here / f"predictions.{kind}").read_bytes()
    assert written.count(b"\n") > 100
    assert (there / f"predictions.{kind}").read_bytes() == written
    names = {path.name for path in there.glob("[!.]*")}
    assert names == {path.name for path in here.glob("[!.]*")} == {f"predictions.{kind}", "config.yaml"}


def test_tables(spark, model, tmp_path) -> None:
    texts = pa.table({"note": ["x"] * len(new_texts()), "text": new_texts(), "text_id": range(len(new_texts()))})
    pq.write_table(texts, tmp_path / "new.parquet")
    spark.read.parquet(str(tmp_path / "new.parquet")).createOrReplaceTempView("new_texts")
    here = labelled(tmp_path / "here", model, str(tmp_path / "new.parquet"), "parquet")
    expected = pq.read_table(here / "predictions.parquet")
    assert expected.column_names == ["text_id", "rank", "label", "name", "score", "probability"]
    for number, source in enumerate([str(tmp_path / "new.parquet"), "table:new_texts"]):
        there = labelled(tmp_path / f"there-{number}", model, source, "parquet", spark)
        rows = pq.read_table(there / "predictions.parquet").sort_by([("text_id", "ascending"), ("rank", "ascending")])
        assert rows.to_pylist() == expected.to_pylist()
    line = labelled(tmp_path / "lines", model, "table:new_texts", "jsonl", spark) / "predictions.jsonl"
    again = labelled(tmp_path / "lines-here", model, str(tmp_path / "new.parquet"), "jsonl") / "predictions.jsonl"
    assert line.read_bytes() == again.read_bytes()


def test_ids_that_occur_twice_are_refused(spark, model, tmp_path) -> None:
    ids = list(range(len(new_texts())))
    texts = write_lines(tmp_path / "new.jsonl", [*ids[:-1], 7])
    with pytest.raises(xf.InputError, match=r"new.jsonl: 1 values of text_id occur more than once, first: 7;"):
        labelled(tmp_path / "out", model, texts, "jsonl", spark)
    assert not (tmp_path / "out").exists()


def test_a_logged_model_as_a_function_of_spark(spark, model, tmp_path, monkeypatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with mlflow_store(tmp_path / "store"):
        here = xf.load_model(str(model))
        # What was logged can be moved.
        shutil.copytree(mlflow.artifacts.download_artifacts(here.log_to_mlflow()), tmp_path / "elsewhere")
        shutil.rmtree(tmp_path / "store")
        label = mlflow.pyfunc.spark_udf(spark, str(tmp_path / "elsewhere"), env_manager="local")
        texts = new_texts()[:20]
        rows = spark.createDataFrame([(n, text) for n, text in enumerate(texts)], "text_id long, text string")
        answer = rows.withColumn("found", label("text")).selectExpr("text_id", "found.*").orderBy("text_id").collect()
        for row, text in zip(answer, texts, strict=True):
            expected = here.predict(text)
            assert row["labels"] == [label.label for label in expected]
            assert row["probabilities"] == [label.probability for label in expected]
