"""Every metric through every engine: the same bytes, with grades, ties and propensities; grades in every form."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from fusion.errors import InputError
from fusion.registry import METRICS
from jobs.evaluation import evaluate
from jobs.settings.config import load_config
from tests.lists import random_relevant, random_texts, whole, write_tables

EVERYTHING = [f"{entry.name}@{k}" if entry.cutoff == "needed" else entry.name for entry in METRICS for k in (3, 200)]
MEANS = ["recall@5:50:5", "rp@1:9:4", "micro-f1@3:12:3", "macro-f1@1:5:2"]
TEXTS, FOLDS = 120, 3


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Judgements with grades, one row each, and folds with training texts."""
    rng = np.random.default_rng(8)
    texts, relevant = random_texts(rng, TEXTS), random_relevant(rng, TEXTS)
    folder = tmp_path_factory.mktemp("graded")
    settings = write_tables(folder, texts, relevant, folds=FOLDS)
    rows = [(q, x, int(rng.integers(1, 4))) for q, labels in enumerate(relevant) for x in labels]
    rows += [(q, x, -(x % 2)) for q, labels in enumerate(relevant) for x in range(q % 5, 50, 5) if x not in labels]
    names, values = ("text_id", "label_id", "grade"), list(zip(*rows, strict=True))
    kinds = (pa.int64(), pa.int32(), pa.int32())
    arrays = [pa.array(column, kind) for column, kind in zip(values, kinds, strict=True)]
    pq.write_table(pa.table(dict(zip(names, arrays, strict=True))), folder / "judgements.parquet")
    folds = [(f, q, "test" if q % FOLDS == f else "train") for q in range(TEXTS) for f in range(FOLDS)]
    columns = [list(column) for column in zip(*folds, strict=True)]
    table = pa.table({"fold": pa.array(columns[0], pa.int32()), "text_id": columns[1], "role": columns[2]})
    pq.write_table(table, folder / "folds.parquet")
    return {**settings, "grid.cells": ["zmuv+combmnz", "rank+combsum"], "evaluate.metrics": [*EVERYTHING, *MEANS]}


@pytest.mark.parametrize(
    "rules",
    [{}, pytest.param({"evaluate.ties": "expected"}, marks=pytest.mark.drill), {"evaluate.compat": "trec_eval"}],
)
def test_engines_give_the_same_bytes(spark: SparkSession, graded: dict[str, object], rules: dict[str, str]) -> None:
    """Also with one partition, and with more than there are texts in some."""
    # The tables beside the metrics follow from the same figures: once is enough.
    settings = {**graded, **rules, "evaluate.details": not rules, "evaluate.randomizations": 100}
    results = {}
    for engine, partitions in (("local", None), ("arrays", 1), ("arrays", 7), ("windows", 3)):
        if rules and partitions == 1:
            continue
        chosen = load_config(None, {**settings, "grid.engine": engine, "spark.partitions": partitions})
        results[engine, partitions] = evaluate.run(None if engine == "local" else spark, chosen)
    local, *others = results.values()
    metrics = local.metrics.to_pylist()
    assert {row["metric"] for row in metrics} == {*METRICS.names(), *MEANS}
    assert all(0 <= row["value"] <= 1 for row in metrics)
    for other in others:
        assert other.metrics.equals(local.metrics)
        for name, table in local.details.items():
            assert other.details[name].equals(table), name


@pytest.mark.parametrize("engine", ["local", "arrays"])
def test_qrels_have_grades_and_each_label_once(spark: SparkSession, tmp_path: Path, engine: str) -> None:
    texts = random_texts(np.random.default_rng(3), 30)
    for name in texts[0]:
        lines = [f"t{q} Q0 {x} 0 {s!r} run\n" for q, text in enumerate(texts) for x, s in whole(text)[name].items()]
        (tmp_path / f"{name}.trec").write_text("".join(lines))
    grades = [(q, x, (x * q) % 4 - 1) for q in range(30) for x in range(0, 50, 3)]
    table = pa.table(
        {
            "text_id": [f"t{q}" for q in range(30)],
            "label_ids": [[str(x) for text, x, _ in grades if text == q] for q in range(30)],
            "grades": [[g for text, _, g in grades if text == q] for q in range(30)],
        }
    )
    pq.write_table(table, tmp_path / "judgements.parquet")
    qrels = tmp_path / "q.qrels"
    qrels.write_text("".join(f"t{q} 0 {x} {g}\n" for q, x, g in grades))
    settings = {
        "inputs.candidates": {name: str(tmp_path / f"{name}.trec") for name in texts[0]},
        "grid.cells": ["rank+isr"],
        "grid.engine": engine,
        "evaluate.metrics": ["ndcg@5", "bpref", "map"],
        "evaluate.details": False,
    }
    session = None if engine == "local" else spark
    by_form = [
        evaluate.run(session, load_config(None, {**settings, "inputs.judgements": str(path)})).metrics
        for path in (qrels, tmp_path / "judgements.parquet")
    ]
    assert by_form[0].equals(by_form[1])

    with qrels.open("a") as file:
        file.write("\nt1 0 0 7\nt2 0 3 1\n")
    lines = qrels.read_text().splitlines()
    first, second = lines.index("t1 0 0 -1") + 1, lines.index("t2 0 3 1") + 1
    message = (
        rf"text 't1', label '0': line {first} \(grade -1\) and line 512 \(grade 7\) contradict each other\n"
        rf".*text 't2', label '3': line {second} \(grade 1\) and line 513 \(grade 1\) repeat each other"
    )
    with pytest.raises(InputError, match=message):
        evaluate.run(session, load_config(None, {**settings, "inputs.judgements": str(qrels)}))
