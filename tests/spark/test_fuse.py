"""Job `fuse`: the rankings that the reference makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from chispa import assert_approx_df_equality
from pyspark.sql import DataFrame, SparkSession

import xmtc_fusion as xf
from jobs.evaluation import fuse
from jobs.settings.config import load_config
from tests import reference
from tests.lists import of_group, random_relevant, random_texts, whole, write_tables

CELLS = ["zmuv+combmnz", "borda+combsum", "rank+isr", "max+condorcet"]
SCHEMA = (
    "text_id long, label_group string, normalization string, fusion string, label_ids array<int>, scores array<double>"
)


@pytest.mark.parametrize("engine", ["local", "arrays", "windows"])
@pytest.mark.parametrize("scope", ["group", "joint"])
def test_fused_lists(spark: SparkSession, tmp_path: Path, scope: str, engine: str) -> None:
    rng = np.random.default_rng(2)
    texts = random_texts(rng, 30, retrievers=2, ties=False)
    settings = write_tables(tmp_path, texts, random_relevant(rng, 30))
    # Fusing needs neither judgements nor a table of groups: the candidates say which group they are of.
    settings |= {"inputs.judgements": None, "inputs.label_groups": "auto", "output.path": str(tmp_path / "out")}
    settings |= {"grid.cells": CELLS, "grid.scope": scope, "grid.engine": engine, "fuse.top": 7}
    written = fuse.run(spark, load_config(None, settings))

    expected = []
    for q, text in enumerate(texts):
        for view in ("tail", "head", "all"):
            for cell in CELLS:
                lists = whole(text) if scope == "joint" or view == "all" else of_group(text, view)
                ranking = reference.fuse(lists, *cell.split("+"))
                ranking = [(x, s) for x, s in ranking if view == "all" or (x < 30) == (view == "tail")][:7]
                if ranking:
                    labels, scores = zip(*ranking, strict=True)
                    expected.append((q, view, *cell.split("+"), list(labels), [float(s) for s in scores]))
    assert written == len(expected)
    assert_approx_df_equality(
        _flat(spark.read.parquet(str(tmp_path / "out" / "fused.parquet")).drop("fold")),
        _flat(spark.createDataFrame(expected, SCHEMA)),
        precision=1e-5,
        ignore_nullable=True,
        ignore_row_order=True,
        ignore_column_order=True,
    )


def _flat(fused: DataFrame) -> DataFrame:
    """One row per label: what a comparison with a tolerance can read."""
    keys = ["text_id", "label_group", "normalization", "fusion"]
    exploded = fused.selectExpr(*keys, "posexplode(arrays_zip(label_ids, scores)) AS (place, pair)")
    labels = exploded.selectExpr(*keys, "place", "pair.label_ids AS label_id", "CAST(pair.scores AS double) AS score")
    return labels.orderBy(*keys, "place")


@pytest.mark.parametrize("engine", ["local", "arrays"])
def test_string_labels_come_back_as_they_were(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    for name, lines in {
        "a": ["q1 Q0 d10 1 3 a", "q1 Q0 d9 2 2 a", "q2 Q0 x 1 1 a"],
        "b": ["q1 Q0 d9 1 3 b", "q1 Q0 d10 2 2 b"],
    }.items():
        (tmp_path / f"{name}.trec").write_text("\n".join(lines) + "\n")
    settings = {
        "inputs.candidates": {name: str(tmp_path / f"{name}.trec") for name in "ab"},
        "grid.cells": ["min-max+combsum"],
        "grid.engine": engine,
        "output.path": str(tmp_path / "out"),
    }
    fuse.run(spark, load_config(None, settings))
    rows = spark.read.parquet(str(tmp_path / "out" / "fused.parquet")).orderBy("text_id").collect()
    # A tie goes by the id as a string, for it is no number.
    assert [(row["text_id"], row["label_ids"]) for row in rows] == [("q1", ["d10", "d9"]), ("q2", ["x"])]


@pytest.mark.parametrize("kind", ["trec", pytest.param("jsonl", marks=pytest.mark.drill), "ranx"])
def test_files_of_all_engines_are_equal_to_the_byte(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    texts = random_texts(np.random.default_rng(4), 40, retrievers=3)
    inputs = write_tables(tmp_path, texts, random_relevant(np.random.default_rng(5), 40))
    cells = ["softmax(temperature=0.2)+combsum", "bm25+dense: sigmoid+wsum(bm25=0.3)", "rrf(k=[1,60])", "dbsf+combmed"]
    settings = {**inputs, "inputs.judgements": None, "inputs.label_groups": "auto", "grid.cells": cells}
    written = set()
    for engine in ("local", "arrays", "windows"):
        chosen = {**settings, "grid.engine": engine, "fuse.format": kind, "output.path": str(tmp_path / engine)}
        written.add(fuse.run(None if engine == "local" else spark, load_config(None, chosen)))
    assert len(written) == 1
    files = sorted(path.name for path in (tmp_path / "local").glob("[!.]*") if path.name != "config.yaml")
    assert len(files) == 5
    for name in files:
        contents = {(tmp_path / engine / name).read_bytes() for engine in ("local", "arrays", "windows")}
        assert len(contents) == 1, name
    assert {path.name for path in (tmp_path / "arrays").glob("[!.]*")} == {*files, "config.yaml"}
    _read_on_both(spark, str(tmp_path / "local" / files[0]))


def _read_on_both(spark: SparkSession, path: str) -> None:
    """A written file is the same run to every engine."""
    runs = {"a": path, "b": path}
    local = xf.fuse(runs, "none+combmax").to_pylist()
    on_spark = xf.fuse(runs, "none+combmax", engine="arrays", spark=spark).toArrow().to_pylist()
    assert local and {repr(row) for row in local} == {repr(row) for row in on_spark}
