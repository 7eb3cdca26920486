"""The public names, without Spark: what comes in, what goes out, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from tests import reference
from tests.lists import random_relevant, random_texts, whole

TEXTS = 40
Runs = dict[str, dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def runs() -> Runs:
    made = random_texts(np.random.default_rng(3), TEXTS, ties=False)
    return {
        name: {
            f"t{q}": {f"l{label}": score for label, score in whole(text)[name].items()} for q, text in enumerate(made)
        }
        for name in made[0]
    }


@pytest.fixture(scope="module")
def judgements() -> dict[str, list[str]]:
    relevant = random_relevant(np.random.default_rng(4), TEXTS)
    return {f"t{q}": [f"l{label}" for label in sorted(labels)] for q, labels in enumerate(relevant)}


def long_rows(run: dict[str, dict[str, float]]) -> dict[str, list[Any]]:
    rows = [(text, label, score) for text, scores in run.items() for label, score in scores.items()]
    return dict(zip(("text_id", "label_id", "score"), map(list, zip(*rows, strict=True)), strict=True))


def list_rows(run: dict[str, dict[str, float]]) -> dict[str, list[Any]]:
    return {
        "text_id": list(run),
        "label_ids": [list(scores) for scores in run.values()],
        "scores": [list(scores.values()) for scores in run.values()],
    }


def write_trec(path: Path, run: dict[str, dict[str, float]]) -> str:
    lines = [f"{text} Q0 {label} 0 {score!r} x" for text, scores in run.items() for label, score in scores.items()]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def as_parquet(path: Path, columns: dict[str, list[Any]]) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def test_the_example_needs_no_spark() -> None:
    code = """
import json, sys
import xmtc_fusion as xf
judgements = {"t1": ["l1", "l3"], "t2": ["l2"]}
runs = {"bm25": {"t1": {"l1": 7.1, "l2": 3.0}}, "dense": {"t1": {"l3": 0.9}, "t2": {"l2": 0.4}}}
result = xf.evaluate(judgements, runs, metrics=["ndcg@10", "precision@1"])
fused = xf.fuse(runs, "zmuv+combmnz", top=64)
print(json.dumps([len(result.metrics), sorted(fused), result.engine, "pyspark" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [(60 + 2) * 2, ["t1", "t2"], "local", False]


def test_figures_are_those_of_the_formulas(runs: Runs, judgements: dict[str, list[str]]) -> None:
    result = xf.evaluate(judgements, runs, metrics=["ndcg@5"], cells=["zmuv+combmnz"])
    want = []
    for text, labels in judgements.items():
        ranking = [
            label for label, _ in reference.fuse({name: run[text] for name, run in runs.items()}, "zmuv", "combmnz")
        ]
        want.append(reference.evaluate(ranking, set(labels), "ndcg", 5))
    rows = [row for row in result.metrics.to_pylist() if row["normalization"] == "zmuv"]
    assert [row["value"] for row in rows] == [pytest.approx(np.mean(want), abs=1e-12)]


@pytest.mark.parametrize("form", ["pandas", "polars", "arrow", "trec", "parquet", "lists", "one table", "mixed"])
def test_every_kind_of_input_gives_the_same(
    runs: Runs, judgements: dict[str, list[str]], tmp_path: Path, form: str
) -> None:
    long = {name: long_rows(run) for name, run in runs.items()}
    pairs = {"text_id": [t for t, labels in judgements.items() for _ in labels]}
    pairs["label_id"] = [label for labels in judgements.values() for label in labels]
    bm25 = runs["bm25"]
    inputs: dict[str, tuple[Any, Any]] = {
        "pandas": ({name: pd.DataFrame(rows) for name, rows in long.items()}, pd.DataFrame(pairs)),
        "polars": ({name: pl.DataFrame(rows) for name, rows in long.items()}, pl.DataFrame(pairs).lazy()),
        "arrow": ({name: pa.table(rows) for name, rows in long.items()}, pa.table(pairs)),
        "trec": ({name: write_trec(tmp_path / f"{name}.trec", run) for name, run in runs.items()}, judgements),
        "parquet": ({name: as_parquet(tmp_path / f"{name}.parquet", rows) for name, rows in long.items()}, judgements),
        "lists": ({name: pl.DataFrame(list_rows(run)) for name, run in runs.items()}, judgements),
        "one table": (
            pa.concat_tables(
                [pa.table({**rows, "retriever": [name] * len(rows["score"])}) for name, rows in long.items()]
            ),
            {text: {**dict.fromkeys(labels, 1), "l999": 0} for text, labels in judgements.items()},
        ),
        "mixed": ({"bm25": write_trec(tmp_path / "b.trec", bm25), "dense": runs["dense"]}, pd.DataFrame(pairs)),
    }
    given, judged = inputs[form]
    expected = xf.evaluate(judgements, runs, metrics="ndcg@10")
    assert xf.evaluate(judged, given, metrics="ndcg@10").metrics == expected.metrics


def test_the_kind_that_came_in_goes_out(runs: Runs, tmp_path: Path) -> None:
    cell = "min-max+combsum"
    fused = xf.fuse(runs, cell, top=5)
    for text, scores in fused.items():
        wanted = reference.fuse({name: run[text] for name, run in runs.items() if run[text]}, "min-max", "combsum")[:5]
        assert list(scores.items()) == [(label, pytest.approx(score, abs=1e-6)) for label, score in wanted]
    pandas = xf.fuse({name: pd.DataFrame(long_rows(run)) for name, run in runs.items()}, cell, top=5)
    assert isinstance(pandas, pd.DataFrame) and list(pandas.columns) == ["text_id", "label_id", "score"]
    polars = xf.fuse({name: pl.DataFrame(list_rows(run)) for name, run in runs.items()}, cell, top=5)
    assert isinstance(polars, pl.DataFrame) and polars.columns == ["text_id", "label_ids", "scores"]
    paths = {name: write_trec(tmp_path / f"{name}.trec", run) for name, run in runs.items()}
    arrow = xf.fuse(paths, cell, top=5)
    assert isinstance(arrow, pa.Table)
    tables = [{row["text_id"]: row["label_ids"] for row in rows} for rows in (polars.to_dicts(), arrow.to_pylist())]
    wanted_lists = {text: list(scores) for text, scores in fused.items()}
    assert tables == [wanted_lists, wanted_lists]
    assert pandas.groupby("text_id", sort=False).label_id.agg(list).to_dict() == wanted_lists
    several = xf.fuse(runs, [cell, "rank+isr"], top=5)
    assert several[cell] == fused and list(several) == [cell, "rank+isr"]


def test_folds_label_groups_and_scope(runs: Runs, judgements: dict[str, list[str]]) -> None:
    folds = {text: n % 3 for n, text in enumerate(judgements)}
    groups = {f"l{n}": "tail" if n < 30 else "head" for n in range(50)}
    result = xf.evaluate(judgements, runs, metrics="ndcg@5", folds=folds, label_groups=groups)
    assert result.metrics["fold"].unique().to_pylist() == [0, 1, 2]
    assert set(result.metrics["label_group"].to_pylist()) == {"tail", "head", "all"}
    table = pa.table({"label_id": list(groups), "label_group": list(groups.values())})
    again = xf.evaluate(
        judgements,
        runs,
        metrics="ndcg@5",
        folds=pd.DataFrame(folds.items(), columns=["text_id", "fold"]),
        label_groups=table,
    )
    assert again.metrics == result.metrics
    joint = xf.evaluate(judgements, runs, metrics="ndcg@5", folds=folds, label_groups=groups, scope="joint")
    assert joint.metrics != result.metrics


def test_a_result_shows_itself(runs: Runs, judgements: dict[str, list[str]], tmp_path: Path) -> None:
    result = xf.evaluate(judgements, runs, metrics=["ndcg@10", "precision@1"], per_query=True, dataset="mine")
    best = result.best("ndcg@10")
    means = (
        result.to_pandas()
        .query("metric == 'ndcg' and normalization != 'single'")
        .set_index(["normalization", "fusion"])
    )
    assert best.mean == means.value.max() and tuple(best.cell) == means.value.idxmax()
    assert str(best.cell) in result.table() or best.cell.fusion in result.table()
    assert "<table>" in result._repr_html_() and "precision@1" in result._repr_html_()
    assert result.plot("grid").axes
    with pytest.raises(xf.ConfigError, match="grid-all"):
        result.plot("grdi")
    with pytest.raises(xf.ConfigError, match="unknown metric"):
        result.best("ndcg@3")
    assert len(result.queries) == TEXTS * 62
    result.save(str(tmp_path / "out"))
    assert Path(result.report(str(tmp_path / "report"))).stat().st_size > 10_000
    assert xf.report(str(tmp_path / "out"), str(tmp_path / "again")).endswith("index.html")
    with pytest.raises(xf.OutputError, match="exists already"):
        result.save(str(tmp_path / "out"))
    result.save(str(tmp_path / "out"), overwrite=True)
    assert pq.read_table(tmp_path / "out" / "metrics.parquet").equals(result.metrics)


BAD = {
    "one run": ({"bm25": {"t1": {"l1": 1.0}}}, "two retrievers or more"),
    "no scores": ({"a": {"t1": ["l1"]}, "b": {"t1": {"l1": 1.0}}}, "run 'a': expected scores by label for text 't1'"),
    "words": ({"a": {"t1": {"l1": "high"}}, "b": {"t1": {"l1": 1.0}}}, "run 'a': scores must be numbers"),
    "mixed ids": (
        {"a": {"t1": {"l1": 1.0}, 7: {"l1": 1.0}}, "b": {"t1": {"l1": 1.0}}},
        "text ids .* int, str",
    ),
    "NaN": ({"a": {"t1": {"l1": float("nan")}}, "b": {"t1": {"l1": 1.0}}}, "run 'a'.*NaN.*\n.*text_id t1"),
    "columns": ({"a": pd.DataFrame({"q": ["t1"]}), "b": {"t1": {"l1": 1.0}}}, "run 'a': missing columns 'text_id'"),
    "a list": ({"a": [1, 2], "b": {"t1": {"l1": 1.0}}}, "run 'a': expected a dictionary, a table .* found a list"),
    "None": (None, r"runs: expected a dictionary, .* found nothing \(None\)"),
    "a run that is None": ({"a": None, "b": {"t1": {"l1": 1.0}}}, r"run 'a': expected .* found nothing \(None\)"),
    "numpy": ({"a": np.zeros((2, 2)), "b": {"t1": {"l1": 1.0}}}, "run 'a': expected a dictionary, .* found a ndarray"),
    "a series": ({"a": pd.Series([1.0]), "b": {"t1": {"l1": 1.0}}}, "run 'a': expected .* found a Series"),
    "no name": ({"": {"t1": {"l1": 1.0}}, "b": {"t1": {"l1": 1.0}}}, "runs: '' is no name for a run"),
    "words for lists": (
        {
            "a": pd.DataFrame({"text_id": ["t1"], "label_ids": ["l1 l2"], "scores": [[1.0, 2.0]]}),
            "b": {"t1": {"l1": 1.0}},
        },
        "run 'a': column 'label_ids' is string, expected an array of int",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_runs_are_refused(case: str) -> None:
    given, message = BAD[case]
    with pytest.raises(xf.XmtcError, match=message):
        xf.evaluate({"t1": ["l1"]}, given)


def test_bad_judgements_are_refused() -> None:
    runs = {"a": {"t1": {"l1": 1.0}}, "b": {"t1": {"l1": 1.0}}}
    with pytest.raises(xf.InputError, match="judgements: expected a list of labels for text 't1'; found 'l1'"):
        xf.evaluate({"t1": "l1"}, runs)
    with pytest.raises(xf.ConfigError, match="catalog table"):
        xf.evaluate("table:somewhere", runs, engine="local")
    with pytest.raises(xf.InputError, match="does not exist"):
        xf.evaluate("no/such/file.parquet", runs)
    with pytest.raises(xf.InputError, match="judgements: the path is empty"):
        xf.evaluate("", runs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"folds": {"t1": "a"}}, "folds: expected the number of a fold for each text; 't1' has 'a'"),
        ({"folds": {0: ["t1"]}}, r"folds: expected the number of a fold for each text; 0 has \['t1'\]"),
        ({"folds": {"t1": 0.5}}, "'t1' has 0.5"),
        ({"folds": [0]}, "folds: expected a dictionary, .*; found a list$"),
        ({"label_groups": {"head": ["l1"]}}, r"label groups: expected the name of a group .*; 'head' has \['l1'\]"),
        ({"label_groups": None}, r"label groups: expected .*; found nothing \(None\)$"),
        ({"training": 3}, "training: expected a dictionary"),
        ({"cells": 5}, "grid.cells: Input should be a valid list"),
        ({"metrics": []}, "evaluate.metrics: name at least one metric"),
        ({"settings": ["evaluate.seed=1"]}, "settings are a dictionary with dotted names"),
        ({"settings": "evaluate.seed=1"}, "settings are a dictionary with dotted names"),
        ({"settings": {1: 1}}, "settings are a dictionary with dotted names"),
        ({"config": {"evaluate.seed": 1}}, "a configuration is the path of a file, and dict is none"),
        ({"spark": "local"}, "spark: expected a session, found 'local'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    runs = {"a": {"t1": {"l1": 1.0}}, "b": {"t1": {"l1": 1.0}}}
    with pytest.raises(xf.XmtcError, match=message):
        xf.evaluate({"t1": ["l1"]}, runs, **arguments)


def test_one_cell_is_named_as_several_are(runs: Runs, judgements: dict[str, list[str]], tmp_path: Path) -> None:
    """A name on its own, and a path as pathlib has it."""
    listed = xf.evaluate(judgements, runs, metrics="ndcg@5", cells=["max+combsum", "rrf"]).metrics
    assert xf.evaluate(judgements, runs, metrics="ndcg@5", cells="max+combsum,rrf").metrics == listed
    place = tmp_path / "mine.yaml"
    place.write_text("grid: {cells: [max+combsum, rrf]}\n")
    result = xf.evaluate(judgements, runs, metrics="ndcg@5", config=place)
    assert result.metrics == listed
    result.save(tmp_path / "out")
    assert xf.report(tmp_path / "out", tmp_path / "report") == f"{tmp_path}/report/index.html"
    assert xf.load_config(None, {"work.path": tmp_path}).work.path == str(tmp_path)
    with pytest.raises(xf.ConfigError, match="give a folder to write to"):
        result.save("")
    for wrong in (None, [], result):
        with pytest.raises(xf.ConfigError, match="results: expected the folder of an evaluation"):
            xf.report(wrong, tmp_path / "other")  # type: ignore[arg-type]
    for wrong in (None, 5, []):
        with pytest.raises(xf.ConfigError, match="names no cell"):
            xf.fuse(runs, wrong)  # type: ignore[arg-type]


def test_large_files_go_to_spark(runs: Runs, judgements: dict[str, list[str]], tmp_path: Path) -> None:
    """The choice of an engine, and the words for it."""
    from jobs.engines.choose import why_spark
    from jobs.inputs.sources import Sources

    path = write_trec(tmp_path / "a.trec", runs["bm25"])
    sources = Sources({"a": path, "b": path}, path)
    given = sources.addresses()
    assert why_spark(xf.load_config(), given, None) is None
    assert "grid.local_limit" in str(why_spark(xf.load_config(settings={"grid.local_limit": 0}), given, None))
    assert "spark.master" in str(why_spark(xf.load_config(settings={"spark.master": "local"}), given, None))
    elsewhere = Sources({"a": "s3://bucket/a.trec", "b": path}, path).addresses()
    assert "s3://" in str(why_spark(xf.load_config(), elsewhere, None))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("relevant", [["a"], ["a", "b"], []])
def test_a_single_text(relevant: list[str], tmp_path: Path) -> None:
    """Groups without a text, and figures that are all equal, have a table and a report."""
    runs = {"x": {"t": {"a": 1.0, "b": 0.5}}, "y": {"t": {"b": 3.0, "a": 0.5}}}
    result = xf.evaluate({"t": relevant}, runs, label_groups={"a": "head", "b": "tail"})
    assert ("tail labels: no text has one" in result.table()) == ("b" not in relevant)
    assert ("tail labels" in result._repr_html_()) == ("b" in relevant)
    assert "all labels" in Path(result.report(str(tmp_path / "report"))).read_text()
