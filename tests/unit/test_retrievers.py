"""Every retriever of the registry, and one from a file: its lists, without leakage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from fusion.errors import InputError
from jobs.engines.local import LocalEngine
from jobs.retrievers import driver, vectors
from jobs.settings.config import Config, load_config, with_settings
from jobs.settings.retrievers import RETRIEVERS
from tests.retrieval_data import FOLDS, LABELS, TEXTS, WORDS, make_data, read_lists, tiny_bert, word, write_prepared

OWN = Path(__file__).parents[2] / "docs" / "own_retriever.py"
NAMES = [*(entry.name for entry in RETRIEVERS if not entry.origin), "name-words"]
TOP = 5
OTHER_VALIDATION = (21, 35)
"""Validation texts of fold 0 that get other words and labels."""
Lists = dict[str, list[tuple[Any, ...]]]


def configure(work: Path, model: Path, **settings: Any) -> Config:
    learning = {"model": str(model), "train_batch": 32, "epochs": 3, "top": TOP, "neighbours": 20}
    dense = {**learning, "max_length": 16, "batch_size": 8, "learning_rate_high": 0.02}
    chosen = {
        **{name: {} for name in NAMES[:-1]},
        "bm25": {"top": TOP, "neighbours": 20},
        "dense": dense,
        "linear": {"top": TOP},
        "tree": {"top": TOP, "leaf": 4},
        "static": {**learning, "max_length": 16, "learning_rate": 0.02},
        str(OWN): {"top": TOP},
    }
    return load_config(
        None,
        {
            "dataset": "made",
            "work.path": str(work),
            "retrievers": chosen,
            **settings,
        },
    )


def retrieved(config: Config, engine: Any = None) -> Lists:
    """The lists of test texts and, after them, those of validation texts."""
    tables = driver.run(engine or LocalEngine(), config)
    folders = {name: str(Path(table).parent) for name, table in tables.items()}
    return {name: [*read_lists(folder), *read_lists(folder, "validation")] for name, folder in folders.items()}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny_bert(tmp_path_factory.mktemp("tiny-bert"))


@pytest.fixture(scope="module", autouse=True)
def small_buckets():
    """Several buckets per chunk, even here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "BUCKET", 8)
        yield


@pytest.fixture(scope="module")
def done(model, tmp_path_factory) -> tuple[Path, Lists]:
    """The folder and the lists of all retrievers."""
    work = tmp_path_factory.mktemp("work")
    write_prepared(work, make_data())
    return work, retrieved(configure(work, model))


@pytest.mark.parametrize("name", NAMES)
def test_lists_are_whole(done, name: str) -> None:
    """Every test and validation text has its lists, best first, of labels of the right group, none longer than asked
    for."""
    lists = done[1][name]
    for role in ("test", "validation"):
        listed = {(row[0], row[2]) for row in read_lists(str(done[0] / "made/candidates" / name), role)}
        texts = {(f, t) for f, roles in enumerate(make_data()["roles"]) for t in range(TEXTS) if roles[t] == role}
        assert listed <= texts
        assert len(listed) >= len(texts) / 2
    for _, retriever, _, group, labels, scores in lists:
        assert retriever == name
        assert 1 <= len(labels) <= TOP
        assert all((label < 8) == (group == "head") for label in labels)
        assert sorted(zip((-score for score in scores), labels, strict=True)) == [
            (-score, label) for score, label in zip(scores, labels, strict=True)
        ]


@pytest.mark.parametrize("name", NAMES)
def test_markers_name_no_stage_of_another_retriever(done, name: str) -> None:
    """One job has built all of them."""
    made = done[0] / "made"
    candidates = made / "candidates" / name
    made_from = json.loads((candidates / "stage.json").read_text())["made_from"]
    places = {str((candidates / place).resolve().relative_to(made.resolve())) for place in made_from}
    assert "prepared" in places
    assert f"{name.replace('static-texts', 'static')}/model" in places
    allowed = {"prepared", "tokens", "vectors", name, name.partition("-")[0]}
    assert {place.partition("/")[0] for place in places} <= allowed
    assert name == "bm25" or not any(place.startswith("bm25/") for place in places)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("dense", "dense-texts")])
def test_labels_that_texts_speak_of_come_first(done, name: str) -> None:
    """Better than chance by far: the first head label is one of the text's in most lists that could have one.

    The encoder of dense and dense-texts has random weights, so that their neighbours mean little.
    """
    data = make_data()
    first = [row[4][0] in data["labels"][row[2]] for row in done[1][name] if row[3] == "head"]
    possible = [any(label < 8 for label in data["labels"][row[2]]) for row in done[1][name] if row[3] == "head"]
    assert sum(first) / sum(possible) > 0.45


@pytest.fixture(scope="module")
def with_others(model, tmp_path_factory) -> Lists:
    """Other texts and labels in every second test text of fold 0, and in two of its validation texts."""
    data = make_data()
    rng = np.random.default_rng(9)
    for text in (*range(0, TEXTS, 2 * FOLDS), *OTHER_VALIDATION):
        size = len(data["texts"][text].split())
        data["texts"][text] = " ".join(word(n) for n in rng.integers(0, WORDS, size))
        data["labels"][text] = [int(rng.integers(LABELS))]
    work = tmp_path_factory.mktemp("others")
    write_prepared(work, data)
    return retrieved(configure(work, model))


@pytest.mark.parametrize("name", NAMES)
def test_no_test_or_validation_text_reaches_its_fold(done, with_others, name: str) -> None:
    """What other texts that a fold lists say and carry changes no list there; where they are training texts it does.

    Early stopping looks at validation texts, but two of them do not make it stop elsewhere.
    """
    before, after = done[1][name], with_others[name]

    def kept(lists: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for row in lists if row[0] == 0 and row[2] % (2 * FOLDS) and row[2] not in OTHER_VALIDATION]

    assert kept(after) == kept(before)
    assert [row for row in after if row[0] == 1] != [row for row in before if row[0] == 1]


def test_what_is_done_is_not_done_again(model, done, tmp_path, capfd) -> None:
    shutil.copytree(done[0], tmp_path / "work")
    capfd.readouterr()
    assert retrieved(configure(tmp_path / "work", model)) == done[1]
    said = capfd.readouterr().err
    assert "word pieces of texts: up to date" in said
    assert "static model: up to date" in said
    assert "name-words model: up to date" in said
    # Longer lists need neither new tokens nor new training.
    config = with_settings(configure(tmp_path / "work", model), {"retrievers": ["static", str(OWN)]})
    driver.run(LocalEngine(), with_settings(config, {"retrievers.static.top": 3}))
    said = capfd.readouterr().err
    assert "static model: up to date" in said
    assert "static candidates: up to date" not in said
    assert "name-words candidates: up to date" in said


def test_how_training_went_is_kept(done) -> None:
    report = json.loads((done[0] / "made/static/model/report.json").read_text())
    assert list(report) == ["0", "1"]
    assert all(max(fold["mrr"]) > fold["mrr"][0] for fold in report.values())


def test_the_nearest_texts_decide_static_texts(done) -> None:
    """Against brute force over the saved vectors."""
    place = done[0] / "made/static/model/fold=0"
    vectors = np.load(place / "texts.vectors.npy").astype(np.float64)
    data = make_data()
    train = [t for t in range(TEXTS) if data["roles"][0][t] == "train"]
    assert len(vectors) == len(train)
    (tokens_table,) = (done[0] / "made/tokens").glob("word-pieces-*/texts/encoded.parquet")
    tokens = {row["id"]: row for row in pq.read_table(tokens_table).to_pylist()}
    from udfs.retrieval.pieces import read_vectors

    table = read_vectors(place / "model/0_StaticEmbedding/model.safetensors")
    text = next(t for t in range(TEXTS) if data["roles"][0][t] == "test")
    query = np.array(tokens[text]["counts"]) @ table[tokens[text]["tokens"]]
    cosines = vectors @ (query / np.linalg.norm(query))
    nearest = np.argsort(-cosines, kind="stable")[:20]
    best: dict[int, float] = {}
    for n in nearest:
        for label in data["labels"][train[n]]:
            best[label] = max(best.get(label, -1.0), cosines[n])
    for row in (row for row in done[1]["static-texts"] if (row[0], row[2]) == (0, text)):
        wanted = sorted((score for label, score in best.items() if (label < 8) == (row[3] == "head")), reverse=True)
        np.testing.assert_allclose(row[5], wanted[:TOP], atol=1e-5)


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("short", "return lambda texts: []", r"a pair of labels and scores for each of 3 texts, found 0"),
        ("uneven", "return lambda texts: [([1, 2], [0.5])] * len(texts)", r"a text has 2 labels and 1 scores"),
        ("beyond", "return lambda texts: [([20], [0.5])] * len(texts)", r"numbers from 0 to 19, found \[20\]"),
        ("twice", "return lambda texts: [([3, 3], [0.5, 0.5])] * len(texts)", r"a label twice"),
        ("infinite", "return lambda texts: [([3], [float('inf')])] * len(texts)", "a score is not finite"),
        ("raising", "raise KeyError('gone')", r"retriever raising, fold 0: KeyError: 'gone'"),
    ],
)
def test_own_retrievers_that_do_not_work(model, done, tmp_path, name: str, body: str, message: str) -> None:
    file = tmp_path / f"{name}.py"
    decorator = f"@xf.retriever('{name}', indexes='i', scores='s', citation='c')"
    file.write_text(f"import xmtc_fusion as xf\n\n\n{decorator}\ndef learn(fold):\n    {body}\n")
    shutil.copytree(done[0] / "made/prepared", tmp_path / "made/prepared")
    config = configure(tmp_path, model, retrievers=[str(file)])
    with pytest.raises(InputError, match=message):
        driver.run(LocalEngine(), config)
    assert not (tmp_path / "made/candidates").exists()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "name-words"])
def test_models_hold_no_pickle(done, name: str) -> None:
    """They can be opened without running code that somebody else may have put there."""
    about = {"dense-texts": "dense-texts", "static-texts": "static"}.get(name, name)
    files = [path for path in (done[0] / "made" / about / "model").rglob("*") if path.is_file()]
    assert len(files) > 4
    for path in files:
        assert path.suffix in (".npy", ".npz", ".json", ".safetensors", ".crc"), path
        if path.suffix in (".npy", ".npz"):
            np.load(path, allow_pickle=False)


def test_two_problems_are_reported_at_once(tmp_path: Path) -> None:
    settings = {"dense": {"model": str(tmp_path / "none")}, "static": {"model": str(tmp_path)}}
    config = load_config(None, {"dataset": "made", "work.path": str(tmp_path), "retrievers": settings})
    with pytest.raises(InputError, match=r"(?s)for 2 reasons.*none does not exist.*no model there"):
        driver.run(LocalEngine(), config)
