"""Job `prepare`: the tables it writes, the folds, and what it refuses."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fusion.errors import InputError
from fusion.labels import HEAD, TAIL, DatasetStatistics
from jobs.datasets import prepare
from jobs.engines.choose import SUBMITTED
from jobs.engines.engine import Engine
from jobs.engines.local import LocalEngine
from jobs.settings.config import Config, load_config
from jobs.settings.prepare import PaperStatistics, PrepareSettings, WorkSettings
from jobs.storage.workspace import Workspace
from tests.doc_blocks import ROOT
from udfs.datasets.dividing import TEST, VALIDATION, Division, unit_of


@pytest.fixture
def engine() -> Engine[Any]:
    return LocalEngine()


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


def test_the_tables(engine: Engine[Any], tmp_path: Path, capsys) -> None:
    records = random_records(60)
    records[10] = {**records[10], "text": "  \t"}
    records[11] = {**records[11], "labels": []}
    records[20] = {**records[20], "text": records[5]["text"]}
    write_texts(tmp_path, records)
    lines = [{"label": label, "name": f"Name of {label}", "alt_names": ["x"]} for label in reversed(LABELS)]
    lines[0]["name"] = ""
    (tmp_path / "labels.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    config = made(tmp_path, label_file="labels.jsonl", group_key="source", unused_labels="keep")
    statistics = prepare.run(engine, config)

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
    assert prepare.run(engine, config.model_copy(update={"prepare": elsewhere})) == statistics
    assert "up to date" in capsys.readouterr().err


NO_SPARK = """
import sys
from jobs.cli import main
code = main(sys.argv[1:])
print(code, {"pyspark", "py4j"} & set(sys.modules) or "no Spark")
"""


@pytest.mark.parametrize("job", ["prepare", "run"])
def test_this_process_needs_no_spark(tmp_path: Path, job: str) -> None:
    texts = [{**record, "text": f"{n} {' '.join(record['labels'])}"} for n, record in enumerate(random_records(60))]
    write_texts(tmp_path, texts)
    given = {"format": "jsonl", "folder": str(tmp_path), "parts": [{"name": "all", "texts": "texts.jsonl"}]}
    (tmp_path / "tiny.yaml").write_text(json.dumps({"dataset": "tiny", "prepare": given}))
    words = [
        job,
        "--set",
        "retrievers=bm25,bm25-labels",
        "--set",
        "prepare.folds=2",
        "--config",
        f"{tmp_path}/tiny.yaml",
        "--work",
        f"{tmp_path}/work",
    ]
    kept = {name: value for name, value in os.environ.items() if name not in SUBMITTED}
    environment = {**kept, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", NO_SPARK, *words], capture_output=True, text=True, env=environment)
    assert done.stdout.endswith("0 no Spark\n"), done.stdout + done.stderr
    assert "engine: local, in this process" in done.stderr


def test_duplicates_and_limit(engine: Engine[Any], tmp_path: Path) -> None:
    records = random_records(40)
    for n in range(20, 30):
        records[n] = {**records[n], "text": records[n - 20]["text"]}
    write_texts(tmp_path, records)
    config = made(tmp_path, duplicates="drop", limit=25, validation_share=0.0, folds=2)
    statistics = prepare.run(engine, config)
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
        (
            [{"text": "x", "labels": ["a"]}],
            {},
            "fold . has no (train|test) texts: too few different texts .or group keys. for 5",
        ),
        ([{"text": "x", "labels": ["a"]}], {"split": "hash"}, "fold 0 has no (train|test) texts: too few texts; set a"),
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
def test_bad_input(engine, tmp_path, records, settings, message) -> None:
    write_texts(tmp_path, records)
    (tmp_path / "labels.jsonl").write_text('{"label": "a", "name": "A"}\n')
    (tmp_path / "unnamed.jsonl").write_text('{"label": "a"}\n')
    (tmp_path / "twice.jsonl").write_text("".join(f'{{"label": "{label}", "name": "A"}}\n' for label in "bcabcad"))
    (tmp_path / "twice.txt").write_text("a\na\n")
    config = made(tmp_path, **settings)
    with pytest.raises(InputError, match=f"(?s){message}"):
        prepare.run(engine, config)
    assert not Path(Workspace.of(config).prepared).exists()


def divided(count: int, split: str = "folds", **given: Any) -> np.ndarray:
    """The roles of texts without keys."""
    settings = {"folds": 4, "seed": 3, "validation_share": 0.1, "test_share": 0.2, **given}
    units = [unit_of(n, None) for n in range(count)]
    published = ["test" if n % 4 == 0 else "train" for n in range(count)]
    return Division(split, **settings).roles(units, published)


def test_roles_by_hash() -> None:
    roles = divided(2000)
    assert ((roles == TEST).sum(axis=1) == 1).all()
    assert 0.08 < (roles == VALIDATION).sum() / (3 * 2000) < 0.12
    assert (np.argmax(roles == VALIDATION, axis=1) != np.argmax(roles == TEST, axis=1)).any()
    # Other texts do not matter, other seeds do.
    assert (divided(100) == roles[:100]).all() and (divided(2000, seed=4) != roles).any()
    one = divided(2000, "hash", folds=1)
    assert 0.17 < (one == TEST).mean() < 0.23 and 0.06 < (one == VALIDATION).mean() < 0.1
    published = divided(2000, "published", folds=1)[:, 0]
    assert (np.flatnonzero(published == TEST) == np.arange(0, 2000, 4)).all() and (published == VALIDATION).any()
    assert not (divided(2000, "published", folds=1, hold_out=False) == VALIDATION).any()


def test_identical_texts_stay_together(engine: Engine[Any], tmp_path: Path, capsys) -> None:
    records = random_records(60)
    for n in range(30, 40):
        records[n] = {**records[n], "text": records[n - 30]["text"]}
    write_texts(tmp_path, records)

    def roles(**settings: Any) -> dict[int, list[str]]:
        config = made(tmp_path, **settings)
        prepare.run(engine, config)
        of_text: dict[int, list[str]] = {n: [""] * 5 for n in range(60)}
        for row in table(config, "folds"):
            of_text[row["text_id"]][row["fold"]] = row["role"]
        return of_text

    together, apart = roles(), roles(identical_texts="apart")
    assert "10 repeat another text (kept in the fold of the first)" in capsys.readouterr().err
    assert all(together[n] == together[n - 30] for n in range(30, 40))
    assert any(apart[n] != apart[n - 30] for n in range(30, 40))
    # The others are where they were.
    assert all(together[n] == apart[n] for n in range(60) if not 30 <= n < 40)
    # Texts of one source stay together as well, and so do all sources that share a text.
    keyed = roles(group_key="source")
    for n in range(30, 40):
        around = {*range(n - n % 3, n - n % 3 + 3), *range(n - 30 - n % 3, n - 30 - n % 3 + 3)}
        assert len({tuple(keyed[m]) for m in around}) == 1


def test_ids_of_any_kind(engine: Engine[Any], tmp_path: Path) -> None:
    records = [{**record, "id": f"d{n % 7}-{n}"} for n, record in enumerate(random_records(30))]
    write_texts(tmp_path, records)
    config = made(tmp_path, columns={"text_id": "id"}, limit=20)
    assert prepare.run(engine, config)["texts"] == 20
    ids = {row["text_id"] for row in table(config, "samples")}
    assert ids < {record["id"] for record in records}
    assert {row["text_id"] for row in table(config, "folds")} == ids
    # 07 is no whole number: as one, it would be the same text as 7.
    write_texts(
        tmp_path, [{**record, "id": number} for record, number in zip(records, [7, "07", *range(8, 36)], strict=True)]
    )
    prepare.run(engine, config)
    samples = pq.read_table(f"{Workspace.of(config).prepared}/samples.parquet")
    assert samples.schema.field("text_id").type == "string"


def published(folder: Path, parts: dict[str, list[dict[str, Any]]], **settings: Any) -> Config:
    roles = {"train": "train", "dev": "validation", "test": "test"}
    for name, records in parts.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    given = [{"name": name, "texts": f"{name}.jsonl", "role": roles[name]} for name in parts]
    chosen = PrepareSettings(format="jsonl", folder=str(folder), parts=given, split="published", **settings)
    return Config(dataset="tiny", prepare=chosen, work=WorkSettings(path=str(folder / "work")))


def test_a_published_split(engine: Engine[Any], tmp_path: Path) -> None:
    records = random_records(60)
    parts = {"train": records[:40], "dev": records[40:45], "test": records[45:]}
    config = published(tmp_path, parts, label_groups={"frequent": "10..", "few": "1..9", "zero": 0})
    statistics = prepare.run(engine, config)
    roles = {row["text_id"]: row["role"] for row in table(config, "folds")}
    assert [roles[n] for n in range(60)] == ["train"] * 40 + ["validation"] * 5 + ["test"] * 15
    (fold,) = statistics["folds"]
    assert (fold["train"], fold["validation"], fold["test"]) == (40, 5, 15)
    labels = table(config, "labels")
    counts = {label: sum(label in record["labels"] for record in records[:40]) for label in LABELS}
    group = {"frequent": range(10, 41), "few": range(1, 10), "zero": range(1)}
    assert all(counts[row["label"]] in group[row["label_group"]] for row in labels)
    assert {row["label_group"] for row in labels} >= {"frequent", "few"}
    of_group = {name: sum(row["label_group"] == name for row in labels) for name in group}
    assert {name: figures["labels"] for name, figures in statistics["label_groups"].items()} == of_group
    assert statistics["texts_per_label"] == pytest.approx(sum(counts.values()) / len(labels))

    # Without a part for them, validation texts are drawn from the training part.
    config = published(tmp_path, {"train": records[:45], "test": records[45:]}, validation_share=0.3)
    (fold,) = prepare.run(engine, config)["folds"]
    assert fold["test"] == 15 and fold["train"] + fold["validation"] == 45 and 5 <= fold["validation"] <= 25


def write_dataset(folder: Path, name: str) -> None:
    """30 training and 10 test texts in the files that the dataset's configuration names; six labels."""
    names = [f"label-{n}" for n in range(6)]
    of_part = {"trn": range(30), "tst": range(30, 40)}
    for part, texts in of_part.items():
        lines = [f"text {n} about {names[n % 6]}" for n in texts]
        if name.startswith("amazon"):
            records = [
                {"title": line, "content": "", "target_ind": [n % 6]} for n, line in zip(texts, lines, strict=True)
            ]
            write_lines(folder / f"{part}.json.gz", map(json.dumps, records))
        elif name == "eurlex-4k":
            write_lines(folder / f"X.{part}.txt", lines)
            write_lines(folder / f"Y.{part}.txt", [f"{n % 6}" for n in texts])
        else:
            long = {"trn": "train", "tst": "test"}[part]
            write_lines(folder / f"{long}_raw_texts.txt", lines)
            write_lines(folder / f"{long}_labels.txt", [names[n % 6] for n in texts])
    write_lines(folder / "output-items.txt", names)
    write_lines(folder / "Yf.txt", names)
    write_lines(folder / "lbl.json.gz", [json.dumps({"title": label}) for label in names])


def write_lines(path: Path, lines: Iterable[str]) -> None:
    data = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("name", ["eurlex-4k", "wiki10-31k", "amazoncat-13k", "amazon-670k"])
def test_the_papers_datasets_have_a_published_split(engine: Engine[Any], tmp_path: Path, name: str) -> None:
    """Their configurations with one more setting: the parts as published, validation texts out of the training part."""
    write_dataset(tmp_path, name)
    settings = {"prepare.folder": str(tmp_path), "prepare.split": "published", "work.path": str(tmp_path / "work")}
    config = load_config(str(ROOT / f"conf/datasets/{name}.yaml"), {**settings, "prepare.validation_share": 0.3})
    statistics = prepare.run(engine, config)
    roles = [row["role"] for row in sorted(table(config, "folds"), key=lambda row: row["text_id"])]
    assert {*roles[:30]} == {"train", "validation"} and {*roles[30:]} == {"test"} and len(roles) == 40
    assert statistics["labels"] == 6 and [row["name"] for row in table(config, "labels")] == [
        f"label-{n}" for n in range(6)
    ]
    assert len(statistics["folds"]) == 1


def test_roles_from_a_column(engine: Engine[Any], tmp_path: Path) -> None:
    records = [{**record, "split": ["train", "dev", "test"][n % 3]} for n, record in enumerate(random_records(30))]
    write_texts(tmp_path, records)
    config = made(tmp_path, split="published", columns={"role": "split"}, roles={"dev": "validation"})
    prepare.run(engine, config)
    assert [row["role"] for row in sorted(table(config, "folds"), key=lambda row: row["text_id"])] == [
        "train",
        "validation",
        "test",
    ] * 10
    with pytest.raises(InputError, match=r"10 of the texts .*\n.* line 2: split 'dev' is no role .*prepare.roles"):
        prepare.run(engine, made(tmp_path, split="published", columns={"role": "split"}))
    with pytest.raises(InputError, match="no text has the role test: give the parts roles"):
        every = {"dev": "train", "test": "validation"}
        prepare.run(engine, made(tmp_path, split="published", columns={"role": "split"}, roles=every))


def test_a_text_in_two_parts_is_a_leak(engine: Engine[Any], tmp_path: Path, capsys) -> None:
    records = random_records(40)
    records[35] = {**records[35], "text": records[3]["text"]}
    records[4] = {**records[4], "text": records[3]["text"]}
    records[38] = {**records[38], "text": records[37]["text"]}
    parts = {"train": records[:30], "test": records[30:]}
    with pytest.raises(InputError, match=r"1 texts are in more than one part .*\n  3, 4, 35 \(test, train\)\nSet"):
        prepare.run(engine, published(tmp_path, parts))
    assert prepare.run(engine, published(tmp_path, parts, allow_leaks=True))["texts"] == 40
    told = capsys.readouterr().err
    assert "published split. First ids: 3, 4, 35 (test, train)\n" in told
    assert "3 repeat another text (kept in their parts)" in told
    assert prepare.run(engine, published(tmp_path, parts, duplicates="drop"))["folds"][0]["test"] == 8


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
