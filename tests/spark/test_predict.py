"""A model gives the same labels in this process and in Spark's workers, in every format and to the byte."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from jobs.engines.spark import SparkEngine
from jobs.prediction import predict
from jobs.settings.config import load_config
from tests.models import fitted, mlflow_store, new_texts, write_lines
from udfs.prediction.model import predictions_schema
from udfs.steps import Batches, Step


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


@pytest.fixture
def schema(spark, tmp_path) -> Iterator[str]:
    """A schema of a catalog with a table of texts, as a name."""
    spark.sql(f"CREATE DATABASE labelling LOCATION '{tmp_path}/labelling'")
    rows = spark.createDataFrame(list(enumerate(new_texts())), "text_id long, text string")
    rows.write.saveAsTable("spark_catalog.labelling.texts")
    yield "spark_catalog.labelling"
    spark.sql("DROP DATABASE labelling CASCADE")


def into_table(model: Path, schema: str, name: str = "labels", texts: str = "", **chosen: Any) -> int:
    """Label the texts of a table, as `auto` has it, into another one."""
    settings = {"predict.model": str(model), "predict.texts": texts or f"table:{schema}.texts"}
    settings |= {"output.path": f"table:{schema}.{name}", "predict.top": 4}
    return predict.run(load_config(None, {**settings, **{key.replace("__", "."): to for key, to in chosen.items()}}))


def tables(spark: Any) -> list[str]:
    return sorted(table.name for table in spark.catalog.listTables("labelling") if not table.isTemporary)


def test_a_table_of_the_catalog_has_the_rows_of_parquet(spark, model, schema, tmp_path, capsys) -> None:
    lines = write_lines(tmp_path / "new.jsonl", range(len(new_texts())))
    expected = pq.read_table(labelled(tmp_path / "here", model, lines, "parquet") / "predictions.parquet")
    for texts in (lines, f"table:{schema}.texts"):
        into_table(model, schema, texts=texts, output__mode="overwrite")
        written = spark.table(f"{schema}.labels").toArrow()
        assert written.schema.equals(expected.schema)
        order = [("text_id", "ascending"), ("rank", "ascending")]
        assert written.sort_by(order).to_pylist() == expected.sort_by(order).to_pylist()
        assert tables(spark) == ["labels", "texts"]
    assert f"engine: arrays, on Spark, since table:{schema}.labels is a catalog table" in capsys.readouterr().err


def test_a_table_is_replaced_only_if_that_is_asked_for(spark, model, schema) -> None:
    first = into_table(model, schema)
    with pytest.raises(xf.OutputError, match=r"^table:.*labelling.labels exists already; .*--mode overwrite"):
        into_table(model, schema, predict__top=1)
    assert spark.table(f"{schema}.labels").count() == first
    fewer = into_table(model, schema, predict__top=1, output__mode="overwrite", predict__format="parquet")
    assert spark.table(f"{schema}.labels").count() == fewer < first


def test_what_holds_no_predictions_is_left_alone(spark, model, schema, tmp_path) -> None:
    """However much it is to be overwritten."""
    spark.sql(f"CREATE VIEW {schema}.seen AS SELECT * FROM {schema}.texts")
    of_others = r"columns are text_id bigint, text string, and what would replace it has text_id bigint, rank int"
    with pytest.raises(xf.OutputError, match=of_others):
        into_table(model, schema, "texts", output__mode="overwrite")
    with pytest.raises(xf.OutputError, match="seen is a view and is left alone"):
        into_table(model, schema, "seen", output__mode="overwrite")
    into_table(model, schema)
    named = write_lines(tmp_path / "new.jsonl", [f"t{n}" for n in range(len(new_texts()))])
    with pytest.raises(xf.OutputError, match="what would replace it has text_id string"):
        into_table(model, schema, texts=named, output__mode="overwrite")
    assert spark.table(f"{schema}.texts").count() == len(new_texts())
    assert tables(spark) == ["labels", "seen", "texts"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("spark_catalog.nowhere.labels", "there is no schema `spark_catalog`.`nowhere`"),
        ("nowhere.schema.labels", "there is no schema `nowhere`.`schema`"),
        ("a.b.c.labels", "there is no schema `a`.`b`.`c`"),
    ],
)
def test_a_table_without_a_schema(spark, model, schema, name: str, message: str) -> None:
    with pytest.raises(xf.OutputError, match=f"^cannot write table:{name}: {message}"):
        into_table(model, schema, output__path=f"table:{name}")


def test_a_name_that_needs_backticks(spark, model, schema) -> None:
    for name in ("2026", "`2026`"):
        into_table(model, schema, name, output__mode="overwrite")
    assert tables(spark) == ["2026", "texts"]


@pytest.mark.parametrize("there", [False, True])
def test_a_table_is_whole_or_as_it_was(spark, model, schema, there: bool) -> None:
    """Workers that fail half way leave nothing, and the next attempt is not in the way of what they began."""
    before = into_table(model, schema) if there else 0
    engine = SparkEngine(spark)
    rows = predictions_schema(pa.int64())

    def fail(batches: Batches) -> Batches:
        yield pa.RecordBatch.from_pylist([{"text_id": 1, "rank": 1}], rows)
        raise xf.InputError("the second row is damaged")

    failing = engine.map(engine.read(pa.table({"n": range(10)})), Step(fail, rows))
    with pytest.raises(xf.InputError, match="the second row is damaged"):
        engine.output_table(f"{schema}.labels", replace=True).write(failing)
    assert tables(spark) == (["labels", "texts"] if there else ["texts"])
    assert not there or spark.table(f"{schema}.labels").count() == before
    assert into_table(model, schema, output__mode="overwrite") == spark.table(f"{schema}.labels").count() > 100


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
