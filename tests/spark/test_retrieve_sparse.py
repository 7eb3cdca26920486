"""Job `retrieve_sparse` against brute force: the right candidates, from training texts only, built once."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rank_bm25 import BM25Okapi

from fusion.errors import InputError
from fusion.retrieval.neighbours import reference
from fusion.retrieval.tokens import Tokenizer
from jobs.datasets.tables import open_tables
from jobs.retrievers import bm25
from jobs.settings.base import SparkSettings
from jobs.settings.bm25 import Bm25Settings
from jobs.settings.config import Config
from jobs.settings.prepare import WorkSettings

FOLDS, TEXTS, LABELS, WORDS = 2, 80, 24, 150
GROUP = {label: "head" if label < 5 else "tail" for label in range(LABELS)}
SILENT = 79
"""A text without a word that any other text has."""


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    chance = 1 / np.arange(20, WORDS + 20)
    chance /= chance.sum()
    texts = [" ".join(f"W{n}" for n in rng.choice(WORDS, rng.integers(3, 20), p=chance)) for _ in range(TEXTS)]
    # Equal training texts with different labels: their scores tie.
    texts[10], texts[30] = texts[50], texts[50]
    texts[SILENT] = "unheardof!"
    likely = 1 / np.arange(1, LABELS + 1)
    likely /= likely.sum()
    labels = [sorted(rng.choice(LABELS, rng.integers(0, 5), replace=False, p=likely).tolist()) for _ in texts]
    roles = [["test" if t % FOLDS == f else ("train", "validation")[t % 7 == 0] for t in range(TEXTS)] for f in (0, 1)]
    return {"texts": texts, "labels": labels, "roles": roles}


def write_prepared(work: Path, data: dict[str, Any], stamp: str = "one") -> None:
    """The tables of `prepare`, in the order of nobody."""
    folder = work / "made" / "prepared"
    folder.mkdir(parents=True)
    order = np.random.default_rng(0).permutation(TEXTS).tolist()
    samples = {
        "text_id": order,
        "text": [data["texts"][t] for t in order],
        "label_ids": pa.array([data["labels"][t] for t in order], pa.list_(pa.int32())),
    }
    labels = {
        "label_id": pa.array(range(LABELS), pa.int32()),
        "label": [f"l{n}" for n in range(LABELS)],
        "name": [f"W{n * 5}" for n in range(LABELS)],
        "alt_names": [[f"w{n * 5 + 1}", f"W{n}"] if n % 2 else [] for n in range(LABELS)],
        "description": [f"about W{n * 3}." if n % 3 else None for n in range(LABELS)],
        "frequency": [1] * LABELS,
        "label_group": [GROUP[n] for n in range(LABELS)],
    }
    folds = {
        "fold": pa.array([f for f in range(FOLDS) for _ in order], pa.int32()),
        "text_id": order * FOLDS,
        "role": [data["roles"][f][t] for f in range(FOLDS) for t in order],
    }
    for name, columns in {"samples": samples, "labels": labels, "folds": folds}.items():
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    (folder / "stage.json").write_text(json.dumps({"stage": "prepare", "fingerprint": stamp}))


def configure(work: Path, partitions: int | None = None, **bm25: Any) -> Config:
    return Config(
        dataset="made",
        work=WorkSettings(path=str(work)),
        spark=SparkSettings(partitions=partitions),
        retrievers={"bm25": bm25, "bm25-labels": {}},
    )


Lists = dict[tuple[int, int, str], list[tuple[int, float]]]


def retrieve(spark, config: Config) -> Lists:
    return lists_of(Path(bm25.run(spark, config)), "test")


def lists_of(candidates: Path, role: str) -> Lists:
    table = pq.read_table(candidates / "lists.parquet", filters=[("role", "=", role)])
    assert table.schema.field("fold").type == pa.int32()
    assert table.schema.field("text_id").type == pa.int64()
    assert table.schema.field("label_ids").type.value_type == pa.int32()
    assert table.schema.field("scores").type.value_type == pa.float32()
    rows = table.to_pylist()
    assert len({row["retriever"] for row in rows}) == 1
    lists = {
        (row["fold"], row["text_id"], row["label_group"]): list(zip(row["label_ids"], row["scores"], strict=True))
        for row in rows
    }
    assert len(lists) == len(rows)
    return lists


@pytest.fixture(scope="module")
def done(spark, tmp_path_factory, data) -> tuple[Path, dict[Any, Any]]:
    """A finished run with the defaults on one partition, for tests to copy: its folder and its lists."""
    work = tmp_path_factory.mktemp("done")
    write_prepared(work, data)
    return work, retrieve(spark, configure(work, partitions=1))


def brute_force(
    data: dict[str, Any], neighbours: int, aggregation: str, top: int, role: str = "test"
) -> dict[Any, Any]:
    expected: Lists = {}
    for fold, roles in enumerate(data["roles"]):
        train = [t for t in range(TEXTS) if roles[t] == "train"]
        tokens = [Tokenizer()(data["texts"][t]) for t in train]
        assert max(Counter(word for words in tokens for word in set(words)).values()) <= len(train) / 2
        okapi = BM25Okapi(tokens)
        for text in (t for t in range(TEXTS) if roles[t] == role):
            scores = okapi.get_scores(Tokenizer()(data["texts"][text])).astype(np.float32)
            order = sorted(np.flatnonzero(scores > 0).tolist(), key=lambda n: (-scores[n], n))[:neighbours]
            carried = [data["labels"][t] for t in train]
            found = reference([(n, scores[n]) for n in order], carried, GROUP, aggregation, top)
            expected.update({(fold, text, group): entries for group, entries in found.items() if entries})
    return expected


def assert_same(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert found.keys() == expected.keys()
    for key, entries in expected.items():
        assert [label for label, _ in found[key]] == [label for label, _ in entries], key
        np.testing.assert_allclose([s for _, s in found[key]], [s for _, s in entries], rtol=5e-6)


def index_bytes(work: Path, fold: int) -> dict[str, bytes]:
    files = (work / "made" / "bm25" / "index" / f"fold={fold}").glob("[!.]*.*")
    return {file.name: file.read_bytes() for file in files if file.name != "stage.json" and file.suffix != ".crc"}


@pytest.mark.parametrize(("neighbours", "aggregation", "top"), [(64, "max", 64), (5, "max", 2), (12, "sum", 64)])
def test_labels_of_similar_texts(spark, tmp_path, data, done, neighbours: int, aggregation: str, top: int) -> None:
    work = shutil.copytree(done[0], tmp_path / "work")
    found = retrieve(spark, configure(work, neighbours=neighbours, aggregation=aggregation, top=top))
    expected = brute_force(data, neighbours, aggregation, top)
    assert len(expected) > TEXTS
    assert_same(found, expected)
    assert not {key for key in found if key[1] == SILENT}
    counts = json.loads((work / "made/bm25/lists/fold=1/stage.json").read_text())
    silent = set(range(1, TEXTS, 2)) - {text for fold, text, _ in found if fold == 1}
    assert counts["texts_without_candidates"] == len(silent)


def test_validation_texts_are_listed_from_the_same_index(spark, tmp_path, data, done, capsys) -> None:
    assert_same(
        lists_of(done[0] / "made/candidates/bm25", "validation"), brute_force(data, 64, "max", 64, "validation")
    )
    # Without them nothing is ranked again, and the lists of test texts are the same.
    work = shutil.copytree(done[0], tmp_path / "work")
    without = configure(work).model_copy(update={"validation_candidates": False})
    capsys.readouterr()
    assert retrieve(spark, without) == done[1]
    assert capsys.readouterr().err.count("up to date") == 2 * FOLDS
    assert [path.name for path in (work / "made/candidates/bm25/lists.parquet").iterdir()] == ["role=test"]


def test_one_document_a_label(spark, tmp_path, data) -> None:
    write_prepared(tmp_path, data)
    found = lists_of(Path(bm25.run(spark, configure(tmp_path, top=7), "bm25-labels")), "test")
    labels = pq.read_table(tmp_path / "made/prepared/labels.parquet").to_pylist()
    expected = {}
    for fold, roles in enumerate(data["roles"]):
        words = [f"{x['name']} {' '.join(x['alt_names'])} {x['description'] or ''}" for x in labels]
        for text in (t for t in range(TEXTS) if roles[t] == "train"):
            for label in data["labels"][text]:
                words[label] += " " + data["texts"][text]
        documents = [Counter(Tokenizer()(text)) for text in words]
        for text in (t for t in range(TEXTS) if roles[t] == "test"):
            scores = _bm25(documents, Tokenizer()(data["texts"][text]))
            for group in ("head", "tail"):
                order = sorted((n for n in GROUP if GROUP[n] == group and scores[n] > 0), key=lambda n: (-scores[n], n))
                if order:
                    expected[fold, text, group] = [(n, scores[n]) for n in order[:7]]
    assert len(expected) > TEXTS
    assert_same(found, expected)


def _bm25(documents: list[Counter[str]], query: list[str], k1: float = 1.5, b: float = 0.75) -> list[float]:
    """The formula, with idf 0 for words in more than half of the documents."""
    mean = sum(document.total() for document in documents) / len(documents)
    scores = [0.0] * len(documents)
    for word in query:
        having = sum(word in document for document in documents)
        idf = max(0.0, math.log((len(documents) - having + 0.5) / (having + 0.5)))
        for n, document in enumerate(documents):
            saturated = document[word] + k1 * (1 - b + b * document.total() / mean)
            scores[n] += idf * document[word] * (k1 + 1) / saturated
    return [float(np.float32(score)) for score in scores]


@pytest.mark.drill
def test_partitions_change_nothing(spark, tmp_path, data, done, monkeypatch) -> None:
    """Neither the candidates nor a byte of the index; nor does scoring in slices."""
    write_prepared(tmp_path, data)
    monkeypatch.setattr(bm25, "SLICE", TEXTS // FOLDS - 1)
    assert retrieve(spark, configure(tmp_path, partitions=8)) == done[1]
    assert index_bytes(tmp_path, 0) == index_bytes(done[0], 0)


@pytest.mark.parametrize("retriever", ["bm25", "bm25-labels"])
def test_no_test_or_validation_text_reaches_the_index(spark, tmp_path, data, done, retriever: str) -> None:
    """With all other texts and their labels changed, not a byte of the fold's index changes."""
    roles = data["roles"][0]
    changed = {
        "texts": [text if roles[t] == "train" else f"leaked{t} w1" for t, text in enumerate(data["texts"])],
        "labels": [labels if roles[t] == "train" else [t % LABELS] for t, labels in enumerate(data["labels"])],
        "roles": data["roles"],
    }

    def built(name: str, texts: dict[str, Any], fold: int) -> dict[str, bytes]:
        write_prepared(tmp_path / name, texts, stamp=name)
        prepared = open_tables(spark, f"{tmp_path}/{name}/made/prepared", 2)
        path = f"{tmp_path}/{name}/made/bm25/index/fold={fold}"
        stages = bm25.FoldStages(retriever, fold, path)
        bm25.index_stage(prepared, Bm25Settings(), stages)
        return index_bytes(tmp_path / name, fold)

    as_is = built("as-is", data, 0) if retriever == "bm25-labels" else index_bytes(done[0], 0)
    assert {"data.csc.index.npy", "vocab.index.json", "text_id.npy"} < set(as_is)
    assert built("changed", changed, 0) == as_is
    indexed = np.load(tmp_path / "changed/made/bm25/index/fold=0/text_id.npy").tolist()
    assert indexed == [t for t in range(TEXTS) if roles[t] == "train"]
    if retriever == "bm25":
        # The other fold trains on some of the changed texts, and shows it.
        assert built("other", changed, 1) != index_bytes(done[0], 1)


def test_what_is_done_is_not_done_again(spark, tmp_path, done, capsys) -> None:
    work = shutil.copytree(done[0], tmp_path / "work")
    assert retrieve(spark, configure(work)) == done[1]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 * FOLDS + 1
    assert all(line.endswith(": up to date") for line in lines)

    # A setting of the scoring leaves the indexes alone.
    retrieve(spark, configure(work, aggregation="sum"))
    err = capsys.readouterr().err
    assert err.count("up to date") == FOLDS
    assert err.count("bm25 lists of fold") == err.count("bm25 validation lists of fold") == FOLDS

    shutil.rmtree(work / "made/bm25/index/fold=1")
    retrieve(spark, configure(work, aggregation="sum"))
    err = capsys.readouterr().err
    done_again = [line for line in err.splitlines() if "up to date" not in line]
    assert len(done_again) == 1 and done_again[0].startswith("bm25 index of fold 1: ")


def test_a_stopped_run_goes_on(spark, tmp_path, data, done, monkeypatch, capsys) -> None:
    write_prepared(tmp_path, data)
    score_texts = bm25.score_texts

    def dies(uri: str, fingerprint: str, fold: int, *rest: Any) -> Any:
        if fold == 1:
            raise KeyboardInterrupt
        return score_texts(uri, fingerprint, fold, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(bm25, "score_texts", dies)
        with pytest.raises(KeyboardInterrupt):
            bm25.run(spark, configure(tmp_path))
    assert not (tmp_path / "made/candidates").exists()
    versions = [path for path in (tmp_path / "made/bm25").rglob("*-????????") if path.is_dir()]
    assert len(versions) == 4
    assert all((version / "stage.json").exists() for version in versions)
    capsys.readouterr()
    assert retrieve(spark, configure(tmp_path)) == done[1]
    err = capsys.readouterr().err
    assert err.count("up to date") == 4
    assert "bm25 lists of fold 1: up to date" not in err
    assert "bm25 lists of fold 1: " in err


def _no_training(data: dict[str, Any]) -> dict[str, Any]:
    roles = ["validation" if role == "train" else role for role in data["roles"][1]]
    return {**data, "roles": [data["roles"][0], roles]}


def _no_tokens(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "texts": ["?!"] * TEXTS}


def _stray_label(data: dict[str, Any]) -> dict[str, Any]:
    return {**data, "labels": [[*labels, LABELS] if t == 9 else labels for t, labels in enumerate(data["labels"])]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_no_training, "fold 1 has no training texts"),
        (_no_tokens, "no training text has a token"),
        (_stray_label, f"text_id 9 carries label_id {LABELS}"),
    ],
)
def test_tables_that_cannot_be_used(spark, tmp_path, data, change, message: str) -> None:
    write_prepared(tmp_path, change(data))
    with pytest.raises(InputError, match=message):
        bm25.run(spark, configure(tmp_path))
    assert not (tmp_path / "made/candidates").exists()


def test_prepare_must_have_run(spark, tmp_path) -> None:
    with pytest.raises(InputError, match="run 'xmtc-fusion prepare'"):
        bm25.run(spark, configure(tmp_path))
