"""BM25 against brute force: the right candidates, from training texts only, built once, whatever the shards."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rank_bm25 import BM25Okapi

from fusion.errors import InputError
from fusion.retrieval.tokens import Tokenizer
from jobs.datasets.prepared import open_prepared
from jobs.engines.local import LocalEngine
from jobs.retrievers import driver
from jobs.retrievers.stages import Work
from jobs.retrievers.tokens import bm25_job
from jobs.settings.config import Config
from jobs.settings.prepare import WorkSettings
from jobs.storage.workspace import Workspace
from tests import reference
from udfs.retrieval.folds import FoldSource

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


def configure(work: Path, name: str = "bm25", **settings: Any) -> Config:
    return Config(dataset="made", work=WorkSettings(path=str(work)), retrievers={name: settings})


Lists = dict[tuple[int, int, str], list[tuple[int, float]]]


def retrieve(config: Config) -> Lists:
    (table,) = driver.run(LocalEngine(), config).values()
    return lists_of(Path(table).parent, "test")


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
def done(tmp_path_factory, data) -> tuple[Path, dict[Any, Any]]:
    """A finished run with the defaults, for tests to copy: its folder and its lists."""
    work = tmp_path_factory.mktemp("done")
    write_prepared(work, data)
    return work, retrieve(configure(work))


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
            found = reference.label_scores([(n, scores[n]) for n in order], carried, GROUP, aggregation, top)
            expected.update({(fold, text, group): entries for group, entries in found.items() if entries})
    return expected


def assert_same(found: dict[Any, Any], expected: dict[Any, Any]) -> None:
    assert found.keys() == expected.keys()
    for key, entries in expected.items():
        assert [label for label, _ in found[key]] == [label for label, _ in entries], key
        np.testing.assert_allclose([s for _, s in found[key]], [s for _, s in entries], rtol=5e-6)


def index_bytes(work: Path, fold: int, name: str = "bm25") -> dict[str, bytes]:
    files = (work / "made" / name / "model" / f"fold={fold}").glob("*.*")
    return {file.name: file.read_bytes() for file in files}


@pytest.mark.parametrize(("neighbours", "aggregation", "top"), [(64, "max", 64), (5, "max", 2), (12, "sum", 64)])
def test_labels_of_similar_texts(tmp_path, data, done, neighbours: int, aggregation: str, top: int) -> None:
    work = shutil.copytree(done[0], tmp_path / "work")
    found = retrieve(configure(work, neighbours=neighbours, aggregation=aggregation, top=top))
    expected = brute_force(data, neighbours, aggregation, top)
    assert len(expected) > TEXTS
    assert_same(found, expected)
    assert not {key for key in found if key[1] == SILENT}


def test_validation_texts_are_listed_from_the_same_index(tmp_path, data, done, capsys) -> None:
    assert_same(
        lists_of(done[0] / "made/candidates/bm25", "validation"), brute_force(data, 64, "max", 64, "validation")
    )
    # Without them, the lists of test texts are the same.
    work = shutil.copytree(done[0], tmp_path / "work")
    assert retrieve(configure(work).model_copy(update={"validation_candidates": False})) == done[1]
    assert "bm25 model: up to date" in capsys.readouterr().err
    assert [path.name for path in (work / "made/candidates/bm25/lists.parquet").iterdir()] == ["role=test"]


def test_one_document_per_label(tmp_path, data) -> None:
    write_prepared(tmp_path, data)
    found = retrieve(configure(tmp_path, "bm25-labels", top=7))
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


@pytest.mark.parametrize("name", ["bm25", "bm25-labels"])
def test_shards_change_nothing(tmp_path, data, name: str) -> None:
    """Not a bit of a score, with a shard for every few documents."""
    write_prepared(tmp_path, data)
    config = configure(tmp_path, name, neighbours=5)
    expected = retrieve(config)
    place = Workspace.of(config)
    work = Work(LocalEngine(), open_prepared(LocalEngine(), place.prepared), place)
    whole = bm25_job(work, name, config.retrievers[name]).retriever
    cut = replace(whole, shard_postings=40)
    cut.fit(FoldSource(0, work.prepared.folder), f"{tmp_path}/cut")
    index, rows = cut.open(tmp_path / "cut" / "fold=0"), cut.encoding(data["texts"])
    assert len(index.index.shards) > 5
    one = whole.open(tmp_path / "made" / name / "model" / "fold=0")
    assert len(one.index.shards) == 1
    ours, theirs = index.rank(rows), one.rank(rows)
    assert [part.tobytes() for part in ours] == [part.tobytes() for part in theirs]
    # These are the lists that the job has written.
    lists = [
        list(zip(theirs.item[a:b].tolist(), theirs.score[a:b].tolist(), strict=True))
        for a, b in pairwise(theirs.offset)
    ]
    for (fold, text, group), entries in expected.items():
        assert fold or lists[2 * text + (group == "tail")] == entries


@pytest.mark.parametrize("name", ["bm25", "bm25-labels"])
def test_no_test_or_validation_text_reaches_the_index(tmp_path, data, name: str) -> None:
    """With all other texts and their labels changed, not a byte of the fold's index changes."""
    roles = data["roles"][0]
    changed = {
        "texts": [text if roles[t] == "train" else f"leaked{t} w1" for t, text in enumerate(data["texts"])],
        "labels": [labels if roles[t] == "train" else [t % LABELS] for t, labels in enumerate(data["labels"])],
        "roles": data["roles"],
    }
    for stamp, texts in {"as-is": data, "changed": changed}.items():
        write_prepared(tmp_path / stamp, texts, stamp=stamp)
        retrieve(configure(tmp_path / stamp, name))
    as_is, other = (index_bytes(tmp_path / stamp, 0, name) for stamp in ("as-is", "changed"))
    assert {"terms.npy", "shard-0.worth.npy", "label_group.npy", "about.json"} < set(as_is)
    assert other == as_is
    # The other fold trains on some of the changed texts, and shows it.
    assert index_bytes(tmp_path / "as-is", 1, name) != index_bytes(tmp_path / "changed", 1, name)


def test_what_is_done_is_not_done_again(tmp_path, done, capsys) -> None:
    work = shutil.copytree(done[0], tmp_path / "work")
    capsys.readouterr()
    assert retrieve(configure(work)) == done[1]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(line.endswith(": up to date") for line in lines)

    # A setting of the scoring leaves the model alone, and one of the formula leaves the tokens alone.
    retrieve(configure(work, aggregation="sum"))
    assert capsys.readouterr().err.count("up to date") == 2
    retrieve(configure(work, k1=0.9))
    assert capsys.readouterr().err.count("up to date") == 1


def test_retrievers_with_one_tokenizer_read_the_same_tokens(tmp_path, data, capsys) -> None:
    write_prepared(tmp_path, data)
    both = Config(dataset="made", work=WorkSettings(path=str(tmp_path)), retrievers=["bm25", "bm25-labels"])
    driver.run(LocalEngine(), both)
    assert capsys.readouterr().err.count("words of texts: up to date") == 1
    assert len(list((tmp_path / "made/tokens").glob("*/texts"))) == 1


def test_a_stopped_run_goes_on(tmp_path, data, done, monkeypatch, capsys) -> None:
    write_prepared(tmp_path, data)

    def dies(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(driver, "lists_stage", dies)
        with pytest.raises(KeyboardInterrupt):
            retrieve(configure(tmp_path))
    assert not (tmp_path / "made/candidates").exists()
    capsys.readouterr()
    assert retrieve(configure(tmp_path)) == done[1]
    assert capsys.readouterr().err.count("up to date") == 2


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
def test_tables_that_cannot_be_used(tmp_path, data, change, message: str) -> None:
    write_prepared(tmp_path, change(data))
    with pytest.raises(InputError, match=message):
        retrieve(configure(tmp_path))
    assert not (tmp_path / "made/candidates").exists()


def test_prepare_must_have_run(tmp_path) -> None:
    with pytest.raises(InputError, match="run 'xmtc-fusion prepare'"):
        retrieve(configure(tmp_path))
