"""Job `evaluate`, against figures computed by the reference, text by text."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fusion.errors import InputError
from fusion.grid.grid import cross
from fusion.labels import ALL
from jobs.evaluation import evaluate
from jobs.evaluation.result import Result
from jobs.settings.config import Config, load_config
from tests import reference
from tests.lists import Text, of_group, random_relevant, random_texts, whole, write_tables

METRICS = ["ndcg@1", "ndcg@5", "precision@3"]
TEXTS = 60


@pytest.fixture(scope="module")
def made() -> tuple[list[Text], list[set[int]]]:
    rng = np.random.default_rng(11)
    texts, relevant = random_texts(rng, TEXTS, retrievers=3, ties=False), random_relevant(rng, TEXTS)
    nothing = {name: {"tail": {}, "head": {}} for name in texts[0]}
    texts[5] = nothing
    texts[6] = {**texts[6], "dense": nothing["dense"]}
    return texts, relevant


@pytest.fixture(scope="module")
def settings(made: tuple[list[Text], list[set[int]]], tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    inputs = write_tables(tmp_path_factory.mktemp("tables"), *made, folds=3)
    return {**inputs, "evaluate.metrics": METRICS, "grid.normalizations": ["all", "borda-prose"]}


def configured(settings: dict[str, object], **more: object) -> Config:
    return load_config(None, {**settings, **{key.replace("__", "."): value for key, value in more.items()}})


def expected(made: tuple[list[Text], list[set[int]]], scope: str) -> dict[tuple, tuple[float, int]]:
    """Every figure by the formulas: mean and number of queries."""
    texts, relevant = made
    cells = cross(["all", "borda-prose"], "all")
    figures: dict[tuple, list[float]] = {}
    for q, text in enumerate(texts):
        for view in ("tail", "head", ALL):
            inside = {x for x in relevant[q] if view == ALL or (x < 30) == (view == "tail")}
            if not inside:
                continue
            rankings = {
                ("single", r): reference.ordered((whole(text) if view == ALL else of_group(text, view))[r])
                for r in text
            }
            for cell in cells:
                if scope == "joint" or view == ALL:
                    fused = [x for x, _ in reference.fuse(whole(text), *cell)]
                    rankings[cell] = [x for x in fused if view == ALL or (x < 30) == (view == "tail")]
                else:
                    rankings[cell] = [x for x, _ in reference.fuse(of_group(text, view), *cell)]
            for cell, ranking in rankings.items():
                for metric in METRICS:
                    metric, k = metric.split("@")
                    for ideal, number in (("all", len(relevant[q])), ("group", len(inside))):
                        # The two are one for all labels, and for a metric that looks at hits alone.
                        if ideal == "group" and (view == ALL or metric == "precision"):
                            continue
                        value = reference.evaluate(ranking, relevant[q], metric, int(k), number)
                        figures.setdefault((q % 3, *cell, view, metric, int(k), ideal), []).append(value)
    return {key: (float(np.mean(values)), len(values)) for key, values in figures.items()}


def figures(result: Result) -> dict[tuple, tuple[float, int]]:
    return {tuple(row.values())[:7]: (row["value"], row["queries"]) for row in result.metrics.to_pylist()}


@pytest.mark.parametrize("engine", ["local", "arrays", "windows"])
@pytest.mark.parametrize("scope", ["group", "joint"])
def test_figures_are_those_of_the_formulas(
    spark: SparkSession, made: tuple[list[Text], list[set[int]]], settings: dict[str, object], scope: str, engine: str
) -> None:
    got = figures(evaluate.run(spark, configured(settings, grid__scope=scope, grid__engine=engine)))
    want = expected(made, scope)
    assert got.keys() == want.keys()
    for key, (value, queries) in want.items():
        assert got[key][1] == queries, key
        assert got[key][0] == pytest.approx(value, abs=1e-12), key


def test_same_bytes_for_any_spread(spark: SparkSession, settings: dict[str, object], tmp_path: Path) -> None:
    """1, 7 and 64 partitions, other files and row orders, and the other engines: metrics to the byte."""
    shuffled = tmp_path / "shuffled.parquet"
    candidates = spark.read.parquet(str(settings["inputs.candidates"]))
    candidates.orderBy("scores").repartition(5).write.parquet(str(shuffled))
    exploded = tmp_path / "long.parquet"
    candidates.selectExpr("*", "explode(arrays_zip(label_ids, scores)) AS pair").selectExpr(
        "retriever", "text_id", "label_group", "pair.label_ids AS label_id", "pair.scores AS score"
    ).orderBy("score").write.parquet(str(exploded))
    runs = {
        "one": {"spark__partitions": 1},
        "seven": {"spark__partitions": 7},
        "many": {"spark__partitions": 64},
        "layout": {"inputs__candidates": str(shuffled)},
        "long": {"inputs__candidates": str(exploded)},
        "windows": {"grid__engine": "windows", "spark__partitions": 3},
        "local": {"grid__engine": "local"},
        "local layout": {"grid__engine": "local", "inputs__candidates": str(shuffled)},
        "local long": {"grid__engine": "local", "inputs__candidates": str(exploded)},
    }
    written = set()
    for name, change in runs.items():
        change = {"evaluate__details": False, **change}
        evaluate.run(spark, configured(settings, output__path=str(tmp_path / name), **change))
        written.add((tmp_path / name / "metrics.parquet").read_bytes())
        written.add((tmp_path / name / "metrics.csv").read_bytes())
    assert len(written) == 2


@pytest.mark.parametrize("engine", ["local", "arrays"])
def test_trec_files_with_string_ids(
    spark: SparkSession,
    made: tuple[list[Text], list[set[int]]],
    settings: dict[str, object],
    tmp_path: Path,
    engine: str,
) -> None:
    """TREC files (one of them gzipped) give what the tables give; without label groups there is group `all` only."""
    texts, relevant = made
    runs = {}
    for name in texts[0]:
        lines = [
            f"text-{q} Q0 {label} {rank} {score!r} {name}\n"
            for q, text in enumerate(texts)
            for rank, (label, score) in enumerate(whole(text)[name].items(), 1)
        ]
        runs[name] = str(tmp_path / f"{name}.trec.gz" if name == "dense" else tmp_path / f"{name}.trec")
        if name == "dense":
            with gzip.open(runs[name], "wt") as stream:
                stream.writelines(lines)
        else:
            Path(runs[name]).write_text("".join(lines))
    qrels = tmp_path / "qrels.txt"
    qrels.write_text(
        "".join(f"text-{q}\t0  {x} 1\n" for q, labels in enumerate(relevant) for x in labels)
        + "".join(f"text-{q} 0 999 0\n" for q in range(TEXTS))
    )
    base = {**settings, "inputs.folds": None, "grid.engine": engine}
    table = figures(evaluate.run(spark, configured(base)))
    trec = figures(
        evaluate.run(
            spark,
            configured(
                {**base, "inputs.candidates": runs, "inputs.judgements": str(qrels), "inputs.label_groups": "auto"}
            ),
        )
    )
    assert trec == {key: value for key, value in table.items() if key[3] == ALL}


def test_what_is_missing_is_counted(spark: SparkSession, settings: dict[str, object]) -> None:
    chosen = {"grid__normalizations": "max", "grid__fusions": "isr"}
    notes = evaluate.run(spark, configured(settings, **chosen)).input_counts
    assert notes == evaluate.run(spark, configured(settings, grid__engine="local", **chosen)).input_counts
    assert notes["judged_texts"] == TEXTS
    assert notes["judged_texts_without_candidates"] >= 1
    assert notes["empty_lists:dense"] >= 2
    assert notes["unjudged_texts"] == 0
    lists = [scores for name in ("dense",) for scores in _lists_of(settings, name)]
    nonpositive = sum(max(scores) <= 0 for scores in lists)
    assert notes["nonpositive_lists:dense"] == nonpositive > 0


def _lists_of(settings: dict[str, object], retriever: str) -> list[list[float]]:
    rows = pq.read_table(str(settings["inputs.candidates"])).to_pylist()
    return [row["scores"] for row in rows if row["retriever"] == retriever]


def test_pareto_groups_are_computed_from_the_judgements(
    spark: SparkSession, made: tuple[list[Text], list[set[int]]], settings: dict[str, object], tmp_path: Path
) -> None:
    """Candidates without groups are divided by the rule; the same groups in a table give the same figures."""
    counts: dict[int, int] = {}
    for labels in made[1]:
        for label in labels:
            counts[label] = counts.get(label, 0) + 1
    ranked = sorted(counts, key=lambda label: (-counts[label], label))
    head = set(ranked[: -(-len(ranked) // 5)])
    table = tmp_path / "labels.parquet"
    spark.createDataFrame(
        [(label, "head" if label in head else "tail") for label in range(50)], "label_id int, label_group string"
    ).write.parquet(str(table))
    ungrouped = tmp_path / "ungrouped.parquet"
    spark.read.parquet(str(settings["inputs.candidates"])).groupBy("retriever", "text_id").agg(
        {"label_ids": "collect_list", "scores": "collect_list"}
    ).selectExpr(
        "retriever", "text_id", "flatten(`collect_list(label_ids)`) label_ids", "flatten(`collect_list(scores)`) scores"
    ).write.parquet(str(ungrouped))
    base = {**settings, "inputs.candidates": str(ungrouped), "grid.normalizations": "zmuv", "grid.fusions": "combmnz"}
    by_rule = figures(evaluate.run(spark, configured(base, inputs__label_groups="pareto")))
    by_table = figures(evaluate.run(spark, configured(base, inputs__label_groups=str(table))))
    assert by_rule == by_table
    for groups in ("pareto", str(table)):
        local = configured(base, inputs__label_groups=groups, grid__engine="local")
        assert figures(evaluate.run(None, local)) == by_table
    assert {key[3] for key in by_rule} == {"tail", "head", ALL}


def test_figures_of_single_texts_average_to_the_metrics(
    spark: SparkSession, settings: dict[str, object], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    chosen = {"grid__cells": ["zmuv+combmnz", "rank+isr"], "evaluate__per_query": True, "output__path": str(out)}
    result = evaluate.run(spark, configured(settings, **chosen))
    single = spark.read.parquet(str(out / "query_metrics.parquet"))
    means = single.groupBy("fold", "normalization", "fusion", "label_group").avg("`ndcg@5`", "`ndcg@5_group`").collect()
    want = figures(result)
    for row in means:
        key = tuple(row[:4])
        assert row[4] == pytest.approx(want[(*key, "ndcg", 5, "all")][0], abs=1e-12)
        if row["label_group"] != ALL:
            assert row[5] == pytest.approx(want[(*key, "ndcg", 5, "group")][0], abs=1e-12)
    assert len(means) == 3 * 5 * 3


def test_results_come_with_their_configuration(
    spark: SparkSession, settings: dict[str, object], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    config = configured(settings, grid__normalizations="rank", grid__fusions="isr", output__path=str(out))
    evaluate.run(spark, config)
    assert load_config(str(out / "config.yaml")) == config
    assert json.loads((out / "run.json").read_text())["input_counts"]["judged_texts"] == TEXTS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_catalog_tables(spark: SparkSession, settings: dict[str, object]) -> None:
    """Whatever the catalog can name is read like a path."""
    chosen = {"grid__normalizations": "zmuv", "grid__fusions": "combmnz"}
    tables = {}
    for key in ("inputs.candidates", "inputs.judgements", "inputs.label_groups", "inputs.folds"):
        name = key.replace(".", "_")
        spark.read.parquet(str(settings[key])).createOrReplaceTempView(name)
        tables[key] = f"table:{name}"
    by_name = figures(evaluate.run(spark, configured({**settings, **tables}, **chosen)))
    assert by_name == figures(evaluate.run(spark, configured(settings, **chosen)))
    with pytest.raises(InputError, match=r"table:nowhere.*nowhere"):
        evaluate.run(spark, configured({**settings, "inputs.judgements": "table:nowhere"}, **chosen))
