"""Job `prepare`: the tables it writes, the folds, and what it refuses."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from fusion.errors import InputError
from fusion.labels import HEAD, TAIL, DatasetStatistics
from jobs.datasets import prepare
from jobs.datasets.tables import sampled, with_folds
from jobs.settings.config import Config
from jobs.settings.prepare import PaperStatistics, PrepareSettings, WorkSettings
from jobs.storage.workspace import Workspace

LABELS = [f"l{n:02d}" for n in range(12)]


def made(folder: Path, **settings: Any) -> Config:
    parts = [{"name": "all", "texts": "texts.jsonl"}]
    chosen = PrepareSettings(format="jsonl", folder=str(folder), parts=parts, **settings)
    return Config(dataset="tiny", prepare=chosen, work=WorkSettings(path=str(folder / "work")))


def write_texts(folder: Path, records: list[dict[str, Any]]) -> None:
    (folder / "texts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def random_records(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    return [
        {
            "text": f"text {n} about things",
            "labels": [LABELS[i] for i in sorted({int(i) for i in rng.zipf(1.7, 3) % 10})],
            "source": f"s{n // 3}",
        }
        for n in range(count)
    ]


def table(config: Config, name: str) -> list[dict[str, Any]]:
    return pq.read_table(f"{Workspace.of(config).prepared}/{name}.parquet").to_pylist()


def test_the_tables(spark: SparkSession, tmp_path: Path, capsys) -> None:
    records = random_records(60)
    records[10] = {**records[10], "text": "  \t"}
    records[11] = {**records[11], "labels": []}
    records[20] = {**records[20], "text": records[5]["text"]}
    write_texts(tmp_path, records)
    lines = [{"label": label, "name": f"Name of {label}", "alt_names": ["x"]} for label in reversed(LABELS)]
    lines[0]["name"] = ""
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = made(tmp_path, label_file="labels.jsonl", group_key="source", unused_labels="keep")
    statistics = prepare.run(spark, config)

    kept = {n: record for n, record in enumerate(records) if n not in (10, 11)}
    number = {line["label"]: n for n, line in enumerate(lines)}
    samples = {row["text_id"]: row for row in table(config, "samples")}
    assert samples == {
        n: {
            "text_id": n,
            "text": record["text"],
            "label_ids": sorted(number[label] for label in record["labels"]),
            "words": len(record["text"].split()),
        }
        for n, record in kept.items()
    }

    labels = sorted(table(config, "labels"), key=lambda row: row["label_id"])
    counts = [sum(line["label"] in record["labels"] for record in kept.values()) for line in lines]
    assert [row["frequency"] for row in labels] == counts
    assert [row["label"] for row in labels] == [line["label"] for line in lines]
    assert labels[0]["name"] == lines[0]["label"]
    assert (labels[1]["name"], labels[1]["alt_names"], labels[1]["description"]) == (lines[1]["name"], ["x"], "")
    frequent = sorted(range(12), key=lambda n: (-counts[n], n))[:3]
    assert {row["label_id"] for row in labels if row["label_group"] == HEAD} == set(frequent)
    assert {row["label_group"] for row in labels} == {HEAD, TAIL}

    folds = table(config, "folds")
    for fold in range(5):
        roles = {row["text_id"]: row["role"] for row in folds if row["fold"] == fold}
        assert roles.keys() == kept.keys()
        for n in kept:
            assert len({roles[m] for m in range(n - n % 3, n - n % 3 + 3) if m in kept}) == 1, "a source is divided"
    assert len(folds) == 5 * len(kept)
    tested = sorted(row["text_id"] for row in folds if row["role"] == "test")
    assert tested == sorted(kept)

    pairs = sum(counts)
    assert statistics["read"] == {
        "texts_read": 60,
        "empty_texts": 1,
        "texts_without_labels": 1,
        "duplicate_texts": 1,
    }
    assert (statistics["texts"], statistics["labels"], statistics["pairs"]) == (58, 12, pairs)
    assert statistics["head_per_text"] == sum(counts[n] for n in frequent) / 58
    assert statistics["texts_per_label"] == pytest.approx(pairs * 0.8 / 12)
    assert statistics["labels_without_texts"] == counts.count(0) >= 2
    for figures in statistics["folds"]:
        assert figures["train"] + figures["validation"] + figures["test"] == 58
        texts = {
            n
            for n in kept
            if n in {row["text_id"] for row in folds if row["fold"] == figures["fold"] and row["role"] == "test"}
        }
        seen = {label for n in kept if n not in texts for label in records[n]["labels"]}
        tested_labels = {label for n in texts for label in records[n]["labels"]}
        assert figures["labels_only_in_test"] == len(tested_labels - seen)
    assert [path.name for path in Path(Workspace.of(config).prepared).iterdir() if "scratch" in path.name] == []

    # The same again is not done again, wherever the files lie.
    capsys.readouterr()
    moved = tmp_path / "else where"
    shutil.copytree(tmp_path, moved, ignore=shutil.ignore_patterns("work"))
    elsewhere = config.prepare.model_copy(update={"folder": str(moved)})
    assert prepare.run(spark, config.model_copy(update={"prepare": elsewhere})) == statistics
    assert "up to date" in capsys.readouterr().err


def test_folds_do_not_depend_on_partitions(spark: SparkSession) -> None:
    settings = PrepareSettings(folds=4, limit=300, seed=3)
    keys = F.when(F.col("id") % 2 == 0, (F.col("id") / 10).cast("int").cast("string"))
    texts = spark.range(500).select(F.col("id").alias("text_id"), keys.alias("key"))
    rows = {
        n: sorted(texts.repartition(n).transform(sampled(settings)).transform(with_folds(settings)).collect())
        for n in (1, 8)
    }
    assert rows[1] == rows[8]
    assert len(rows[1]) == 4 * 300
    roles = {role: sum(row["role"] == role for row in rows[1]) for role in ("train", "validation", "test")}
    assert roles["test"] == 300
    assert 0.05 < roles["validation"] / (3 * 300) < 0.16
    validation = [
        {row["text_id"] for row in rows[1] if row["role"] == "validation" and row["fold"] == f} for f in range(4)
    ]
    assert validation[0] != validation[1]
    other = texts.transform(with_folds(PrepareSettings(folds=4, seed=4))).collect()
    chosen = {row["text_id"] for row in rows[1]}
    assert sorted(row for row in other if row["text_id"] in chosen) != rows[1]


def test_folds_of_a_text_do_not_depend_on_other_texts(spark: SparkSession) -> None:
    settings = PrepareSettings()
    texts = spark.range(200).select(F.col("id").alias("text_id"), F.lit(None).cast("string").alias("key"))
    every = {tuple(row) for row in texts.transform(with_folds(settings)).collect()}
    some = {tuple(row) for row in texts.where("text_id % 3 = 0").transform(with_folds(settings)).collect()}
    assert some == {row for row in every if row[1] % 3 == 0}


def test_duplicates_and_limit(spark: SparkSession, tmp_path: Path) -> None:
    records = random_records(40)
    for n in range(20, 30):
        records[n] = {**records[n], "text": records[n - 20]["text"]}
    write_texts(tmp_path, records)
    config = made(tmp_path, duplicates="drop", limit=25, validation_share=0.0, folds=2)
    statistics = prepare.run(spark, config)
    ids = {row["text_id"] for row in table(config, "samples")}
    assert statistics["texts"] == len(ids) == 25
    assert ids.isdisjoint(range(20, 30))
    assert {row["role"] for row in table(config, "folds")} == {"train", "test"}
    used = {label for n in ids for label in records[n]["labels"]}
    assert [row["label"] for row in sorted(table(config, "labels"), key=lambda row: row["label_id"])] == sorted(used)


@pytest.mark.parametrize(
    ("records", "settings", "message"),
    [
        (
            [{"text": " ", "labels": ["a"]}, {"text": "x", "labels": []}],
            {},
            "dataset is empty: of 2 texts, 1 are empty",
        ),
        ([{"text": "x", "labels": ["a"]}] * 2, {"columns": {"text_id": "n"}}, r"2 of the texts .*line 1: the key 'n'"),
        ([{"text": "x", "labels": ["a"], "n": 7}] * 2, {"columns": {"text_id": "n"}}, "1 text ids occur more .* 7;"),
        ([{"text": "x", "labels": ["a"]}], {}, "fold . has no (train|test) texts: too few"),
        (
            [{"text": "x", "labels": ["a"]}, {"text": "y", "labels": ["b"]}],
            {"label_file": "labels.jsonl"},
            r"labels.jsonl has no name for 1 labels .*\n  'b', first at text 1",
        ),
        (
            [{"text": "x", "labels": ["a"]}],
            {"label_file": "unnamed.jsonl"},
            r"unnamed.jsonl: no label has a name, since no record has 'name'; set prepare.columns.name",
        ),
        (
            [{"text": "x", "labels": ["a"], "n": 9 - n} for n in range(8)] + [{"text": "x", "n": "y"}, {"n": 0}],
            {"columns": {"text_id": "n"}},
            r"2 of the texts cannot be used. First:\n[^\n]* line 9: [^\n]*\n[^\n]* line 10: ",
        ),
        (
            [{"text": "x", "labels": ["a"]}],
            {"label_file": "twice.txt", "columns": {"label": "label"}},
            "label id 'a' is not a whole number",
        ),
        (
            [{"text": "x", "labels": ["a"]}],
            {"label_file": "twice.jsonl"},
            "3 labels are listed more than once .*: 'b', 'c', 'a'",
        ),
    ],
)
def test_bad_input(spark, tmp_path, records, settings, message) -> None:
    write_texts(tmp_path, records)
    (tmp_path / "labels.jsonl").write_text('{"label": "a", "name": "A"}\n')
    (tmp_path / "unnamed.jsonl").write_text('{"label": "a"}\n')
    (tmp_path / "twice.jsonl").write_text("".join(f'{{"label": "{label}", "name": "A"}}\n' for label in "bcabcad"))
    (tmp_path / "twice.txt").write_text("a\na\n")
    config = made(tmp_path, **settings)
    with pytest.raises(InputError, match=f"(?s){message}"):
        prepare.run(spark, config)
    assert not Path(Workspace.of(config).prepared).exists()


def test_the_row_beside_the_papers() -> None:
    groups = np.array([HEAD, TAIL, TAIL, TAIL])
    row = DatasetStatistics.of(1250, np.array([2000, 20, 5, 0]), groups, 5)
    assert (row.head_labels, row.pairs) == (1, 2025)
    figures = {
        "dataset": "tiny",
        "texts": row.texts,
        "labels": row.labels,
        "tail_per_text": row.tail_per_text,
        "head_per_text": row.head_per_text,
        "texts_per_label": row.texts_per_label,
    }
    paper = PaperStatistics(texts=1250, labels=4, tail_per_text=0.02, head_per_text=1.6, texts_per_label=405)
    assert prepare.summary(figures, paper).splitlines() == [
        "dataset         texts N  labels L  tail/text  head/text  texts/label",
        "tiny     ours     1,250         4       0.02       1.60       405.00",
        "         paper    1,250         4       0.02       1.60       405.00",
    ]
