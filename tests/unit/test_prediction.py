"""A model that labels new texts: fitted, kept, loaded and applied, in this process."""

from __future__ import annotations

import csv
import gzip
import json
import random
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from fusion.errors import ConfigError, InputError, OutputError
from jobs.cli import main
from jobs.engines.local import LocalEngine
from jobs.prediction.model import read_manifest
from jobs.retrievers import driver
from jobs.settings.config import load_config
from tests.models import RETRIEVERS, fitted
from tests.retrieval_data import make_data, tiny_bert, write_prepared

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "data" / "debtags"
QUESTION = "A fast mail client for the terminal, with IMAP and encryption"


def lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(DEMO / name, "rt", encoding="utf-8") as stream:
        return list(map(json.loads, stream))


@pytest.fixture(scope="module")
def records() -> list[dict[str, Any]]:
    return lines("texts.jsonl.gz")[:300]


@pytest.fixture(scope="module")
def model(records) -> xf.Model:
    names = {row["label"]: row["name"] for row in lines("labels.jsonl.gz") if row.get("name")}
    return xf.fit([row["text"] for row in records], [row["labels"] for row in records], names=names)


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("kept") / "model"
    model.save(str(place))
    return place


def test_a_text_gets_labels_with_probabilities(model) -> None:
    labels = model.predict(QUESTION, top=5)
    assert len(labels) == 5
    assert {"protocol::imap", "mail::user-agent"} <= {label.label for label in labels}
    assert "IMAP" in {label.name for label in labels}
    assert all(0 <= label.probability <= 1 and set(label.found_by) <= {"bm25", "static"} for label in labels)
    assert [label.score for label in labels] == sorted((label.score for label in labels), reverse=True)


def test_a_text_gets_the_same_labels_in_any_batch(model, records) -> None:
    texts = [QUESTION, "", *(row["text"] for row in records[:40]), "zzzz qqqq", QUESTION]
    table = model.predict(texts, top=5)
    alone = [(label.label, label.probability, label.score) for label in model.predict(QUESTION, top=5)]
    for place in (0, len(texts) - 1):
        rows = [row for row in table.to_pylist() if row["text_id"] == place]
        assert [(row["label"], row["probability"], row["score"]) for row in rows] == alone
        assert [row["rank"] for row in rows] == [1, 2, 3, 4, 5]
    # Nothing is known of an empty text, nor of one without known words.
    assert not {1, len(texts) - 2} & set(table["text_id"].to_pylist())


def test_a_text_of_a_megabyte_gets_labels(model) -> None:
    """Those of its words, however often they are repeated; what counts are shares, not lengths."""
    text = " ".join([QUESTION] * 20_000)
    assert len(text) > 1_000_000
    labels = model.predict(text, top=3)
    assert {"protocol::imap", "mail::user-agent"} <= {label.label for label in labels}


def test_why_a_text_gets_its_labels(model, records) -> None:
    explained, labels = model.explain(QUESTION, top=5), model.predict(QUESTION, top=5)
    rows = explained.table.to_pylist()
    assert [(row["label"], row["probability"], row["score"]) for row in rows] == [
        (label.label, label.probability, label.score) for label in labels
    ]
    for row, label in zip(rows, labels, strict=True):
        assert tuple(name for name in ("bm25", "static") if row[f"{name}_rank"]) == label.found_by
        assert (row["bm25_score"] is None) == ("bm25" not in label.found_by)
    near = explained.neighbours.to_pylist()
    # BM25 compares with training texts, of which the label is one of the labels; their best score is that of the label.
    assert {row["retriever"] for row in near} == {"bm25"}
    for row in near:
        assert row["label"] in records[row["text_id"]]["labels"]
    for row in rows:
        scores = [one["score"] for one in near if one["label"] == row["label"]]
        assert scores == sorted(scores, reverse=True) and len(scores) <= 3
    shown = repr(explained)
    assert QUESTION in shown and "bm25 normalised" in shown and "IMAP" in shown
    assert f"bm25: {near[0]['text_id']} (" in shown
    assert "<table>" in explained._repr_html_()
    nothing = model.explain("")
    assert not len(nothing.table) and "The text gets no label." in repr(nothing)
    assert "no label" in nothing._repr_html_()


def test_threshold_and_the_models_own_choice(model, records) -> None:
    texts = [row["text"] for row in records[:100]]
    likely = model.predict(texts, threshold=0.5)
    assert len(likely) and min(likely["probability"].to_pylist()) >= 0.5
    chosen = model.validation["assignment"]
    own = model.predict(texts)
    assert min(own["probability"].to_pylist()) >= chosen["threshold"]
    assert max(own["rank"].to_pylist()) <= chosen["top"]
    assert model.validation["calibration_error"] < 0.05


def test_tables_keep_their_ids(model) -> None:
    table = pa.table({"text_id": ["b0000", "a1"], "text": [QUESTION, "A chess program with a board"]})
    assert set(model.predict(table, top=2)["text_id"].to_pylist()) == {"b0000", "a1"}
    with pytest.raises(InputError, match="no column 'text'; it has body"):
        model.predict(pa.table({"body": ["x"]}))
    with pytest.raises(InputError, match="more than once"):
        model.predict(pa.table({"text_id": [1, 1], "text": ["x", "y"]}))
    with pytest.raises(InputError, match="1 texts of the table have no text_id"):
        model.predict(pa.table({"text_id": ["a", None], "text": ["x", "y"]}))
    with pytest.raises(InputError, match="'text' holds int64, and texts are strings"):
        model.predict(pa.table({"text": [1]}))
    for top in (0, 2.5, "3"):
        with pytest.raises(ConfigError, match=f"top is {top!r}; expected a whole number of labels"):
            model.predict(QUESTION, top=top)
    for threshold in (1.5, "0.5"):
        with pytest.raises(ConfigError, match=f"threshold is {threshold!r}; expected a probability"):
            model.predict(QUESTION, threshold=threshold)


@pytest.mark.parametrize("texts", [[1], ["\ud800"], "\ud800", np.array([1.5])])
def test_what_is_no_text_is_refused(model, texts: Any) -> None:
    with pytest.raises(InputError, match="texts are strings"):
        model.predict(texts)


def test_one_text_is_a_string(model) -> None:
    with pytest.raises(InputError, match="explain takes one text, a string; found list"):
        model.explain([QUESTION])
    with pytest.raises(InputError, match="expected a string, a list of strings or a table, found ndarray"):
        model.predict(np.array(QUESTION))


def test_folders_of_pathlib(model, folder, tmp_path) -> None:
    model.save(tmp_path / "copy")
    assert xf.load_model(tmp_path / "copy").predict(QUESTION) == xf.load_model(folder).predict(QUESTION)
    for wrong in (None, "", 5):
        with pytest.raises(ConfigError, match="expected the folder of a model"):
            xf.load_model(wrong)


@pytest.mark.parametrize("kind", [tuple, np.array, pa.array])
def test_sequences_of_texts(model, kind: Any) -> None:
    """More of them than are labelled in one call."""
    texts = [QUESTION, "A chess program with a board"] * 600
    table = model.predict(kind(texts), top=2)
    assert table["text_id"].to_pylist() == [number for number in range(1200) for _ in range(2)]
    labels = table["label"].to_pylist()
    assert labels == labels[:4] * 600


def test_a_moved_model_says_the_same(model, folder, tmp_path) -> None:
    place = tmp_path / "elsewhere"
    shutil.copytree(folder, place)
    shutil.rmtree(tmp_path / "nothing", ignore_errors=True)
    assert xf.load_model(str(place)).predict(QUESTION, top=7) == model.predict(QUESTION, top=7)
    with pytest.raises(OutputError, match="holds a model already"):
        model.save(str(place))
    model.save(str(place), overwrite=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty and holds no model"):
        model.save(str(tmp_path / "other"), overwrite=True)


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_fitted(model, tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(OutputError, match=f"cannot write to {place}: {tmp_path}/file is not a folder"):
            model.save(str(place))
    data = ["--config", str(ROOT / "conf" / "datasets" / "debtags.yaml"), "--work", f"{tmp_path}/work"]
    assert main(["fit", *data, "--output", f"{tmp_path}/file/model"]) == 4
    assert "file is not a folder" in capsys.readouterr().err and not (tmp_path / "work").exists()


def _damaged(folder: Path, tmp_path: Path, spoil: Any) -> str:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    spoil(place, json.loads((place / "model.json").read_text()))
    return str(place)


def _with(**values: Any) -> Any:
    def spoil(place: Path, manifest: dict[str, Any]) -> None:
        deep = "[" * 100_000 + "]" * 100_000
        (place / "model.json").write_text(json.dumps({**manifest, **values}).replace('"DEEP"', deep))

    return spoil


def _flip(place: Path, manifest: dict[str, Any]) -> None:
    file = place / manifest["folder"] / "static" / "vectors.npy"
    content = bytearray(file.read_bytes())
    content[-7] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_flip, r"damaged: the content of \w+/static/vectors.npy has changed"),
        (
            lambda place, m: (place / m["folder"] / "bm25/about.json").unlink(),
            r"incomplete: \w+/bm25/about.json is missing",
        ),
        (lambda place, m: (place / m["folder"] / "fusion.json").write_text("{}"), r"fusion.json has 2 bytes"),
        (lambda place, m: (place / "model.json").unlink(), "holds no model: there is no model.json"),
        (lambda place, m: (place / "model.json").write_text("{"), "model.json is damaged"),
        (_with(format=99), "format 99, which a newer version wrote; this one reads up to 1"),
        (_with(kind="cake"), "its kind is 'cake'"),
        (_with(format=True), "describes no model of this program"),
        (_with(assignment={"top": 1, "threshold": 0.0}), "model.json is damaged: it does not say what was written"),
        (_with(files={}), "model.json is damaged: it does not say what was written"),
        (_with(deep="DEEP"), "JSON with too many lists"),
        (_with(half="\ud800"), "half of a character"),
        (_with(**{"kind ": 1}), "it does not say what was written"),
    ],
)
def test_a_folder_that_is_no_whole_model_is_refused(folder, tmp_path, spoil, message) -> None:
    with pytest.raises(InputError, match=message):
        xf.load_model(_damaged(folder, tmp_path, spoil))


def test_no_byte_of_a_manifest_may_change(folder, tmp_path) -> None:
    """It decides how many labels are assigned, and no other file would show that it is not the one that was written."""
    place, rng = tmp_path / "model", random.Random(1)
    shutil.copytree(folder, place)
    whole, written = (folder / "model.json").read_bytes(), read_manifest(str(folder))
    read = 0
    for at in rng.sample(range(len(whole)), 300):
        flipped = bytes([whole[at] ^ (1 << rng.randrange(7))])
        (place / "model.json").write_bytes(whole[:at] + flipped + whole[at + 1 :])
        with suppress(InputError):
            # White space may become other white space.
            assert read_manifest(str(place)) == written
            read += 1
    assert read < 30


def test_a_writer_that_is_killed_leaves_no_model_and_is_no_obstacle(folder, tmp_path) -> None:
    """Killed when all files are there but the manifest: nothing can be read, and the next one goes on."""
    place = tmp_path / "model"
    code = f"""
import os, signal
import xmtc_fusion as xf
from jobs.prediction import model
model.put = lambda *manifest: os.kill(os.getpid(), signal.SIGKILL)
xf.load_model({str(folder)!r}).save({str(place)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    (content,) = place.iterdir()
    assert any(content.rglob("*.npy"))
    with pytest.raises(InputError, match="holds no model"):
        xf.load_model(str(place))
    (place / "0123456789abcdef").mkdir()
    xf.load_model(str(folder)).save(str(place))
    assert {path.name for path in place.iterdir()} == {content.name, "model.json"}
    assert xf.load_model(str(place)).predict(QUESTION, top=3) == xf.load_model(str(folder)).predict(QUESTION, top=3)
    # What others have put there stays.
    (place / "notes.txt").write_text("mine")
    xf.load_model(str(folder)).save(str(place), overwrite=True)
    assert (place / "notes.txt").exists()


def test_labels_without_a_name_are_called_what_they_are() -> None:
    texts = [f"word{n % 5} thing{n % 7} about topic{n % 4}" for n in range(40)]
    labels = [[f"c{n % 4}", f"d{n % 5}"] for n in range(40)]
    names = {"c0": "The first", "none": "a label of no text"}
    model = xf.fit(texts, labels, names=names, retrievers=["bm25", "bm25-labels"])
    called = {row["label"]: row["name"] for row in model.labels.to_pylist()}
    assert called == {label: names.get(label, label) for some in labels for label in some}


SAID = {"farm": "cows and fields", "sea": "boats and waves", "roof": "solar panels", "rail": "trams and trains"}
FEW = [(f"text {n} about {words}", [label, "news"]) for n in range(5) for label, words in SAID.items()]
"""Fewer texts than leave a validation text to each of five folds."""


ABOUT_FEW = "trams, trains, and waves"


@pytest.fixture(scope="module")
def of_few() -> xf.Model:
    return xf.fit(*zip(*FEW, strict=True))


@pytest.mark.parametrize("kind", [pa.table, pd.DataFrame, "jsonl", "csv", pa.array, pd.Series, np.array, "numbers"])
def test_what_a_model_can_be_fitted_on(of_few, kind: Any, tmp_path, capsys) -> None:
    """All that holds the same texts and labels gives the same model, also where there are few of them."""
    texts, labels = map(list, zip(*FEW, strict=True))
    expected = of_few.predict(ABOUT_FEW, top=3)
    assert expected[0].label in {"rail", "news"}
    if kind in (pa.table, pd.DataFrame):
        model = xf.fit(kind({"labels": labels, "text": texts, "more": texts}))
    elif kind == "jsonl":
        (tmp_path / "t.jsonl").write_text("".join(json.dumps({"body": t, "tags": some}) + "\n" for t, some in FEW))
        model = xf.fit(f"{tmp_path}/t.jsonl")
        assert "has texts in body and labels in tags" in capsys.readouterr().err
    elif kind == "csv":
        lines = ["a,b,c", *(f"{text},{';'.join(some)},title" for text, some in FEW)]
        (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
        columns = {"prepare.columns.text": "a", "prepare.columns.labels": "b"}
        model = xf.fit(f"{tmp_path}/t.csv", settings=columns)
    elif kind == "numbers":
        numbers = {label: number for number, label in enumerate(sorted({*SAID, "news"}))}
        names = {str(number): label for label, number in numbers.items()}
        model = xf.fit(texts, [{numbers[label] for label in some} for some in labels], names=names)
        assert sorted(model.labels["label"].to_pylist()) == sorted(names)
        expected = [label._replace(label=str(numbers[label.label])) for label in expected]
    else:
        model = xf.fit(kind(texts), kind(labels))
    assert model.predict(ABOUT_FEW, top=3) == expected


def test_ids_of_texts_are_found_again() -> None:
    texts, labels = map(list, zip(*FEW, strict=True))
    ids = [f"n{n}" for n in range(len(texts))]
    model = xf.fit(pa.table({"text_id": ids, "text": texts, "labels": labels}))
    near = model.explain(ABOUT_FEW).neighbours.to_pylist()
    assert near and all(row["label"] in labels[ids.index(row["text_id"])] for row in near)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a", "b"], [["x"]]), "2 texts and 1 lists of labels"),
        ((["a", "b"],), "texts without labels: fit"),
        (([], []), "there are no texts to learn from"),
        ((), "nothing to learn from: give texts with labels"),
        ((None, [["x"]]), "nothing to learn from: give texts with labels"),
        ((["a", "b"], 5), "labels: expected a list, one entry per text; found 5"),
        ((pd.DataFrame({"text": ["a"], "labels": [["x"]]}), [["x"]]), "a table holds labels in a column of its own"),
        (("abc", [["x"], ["y"], ["z"]]), "texts are a list of strings, and 'abc' is one"),
        ((["a", "b"], ["x", "y"]), r"labels\[0\] is 'x', and each text has a list of labels"),
        ((["a", "b"], [["x"], 3]), r"labels\[1\] is 3, and each text has"),
        ((["a", "b"], [["x"], ["y", None]]), r"labels\[1\] holds None, and labels are strings or whole numbers"),
        (([1, "b"], [["x"], ["y"]]), "texts are strings"),
        ((pa.table({"body": ["a"], "labels": [["x"]]}),), "the table has no column 'text'; it has body, labels"),
        ((pa.table({"text": ["a"], "tags": [["x"]]}),), "the table has no column 'labels'; it has text, tags"),
        ((pa.table({"text": ["a"], "labels": ["x"]}),), r"labels\[0\] is 'x'"),
        ((pd.DataFrame({"text": ["a", "b"], "labels": [["x"], [1]]}),), "the table cannot be read"),
        ((Path("nowhere.jsonl"),), "cannot read nowhere.jsonl: it does not exist"),
        (("nowhere.jsonl",), "cannot read nowhere.jsonl: it does not exist"),
        ((["a"] * 20, [["x"]] * 20), "fold . has no .* texts: too few different texts"),
        (([f"same {n}" for n in range(40)], [["x"]] * 40), "every label, has the same vector"),
    ],
)
def test_what_a_model_cannot_be_fitted_on(arguments: Any, message: str) -> None:
    with pytest.raises(xf.XmtcError, match=message):
        xf.fit(*arguments)


def test_a_model_is_of_texts_or_of_a_dataset() -> None:
    with pytest.raises(ConfigError, match="there are texts and the configuration of a dataset"):
        xf.fit(["a"], [["x"]], config=str(ROOT / "conf" / "datasets" / "debtags.yaml"))


def test_the_core_is_enough(folder) -> None:
    """Without the packages of the extras, and without Spark, a model is loaded and says the same."""
    code = f"""
import sys
for name in ("torch", "tokenizers", "safetensors", "faiss", "sentence_transformers", "pyspark"):
    sys.modules[name] = None
import xmtc_fusion as xf
print(xf.load_model({str(folder)!r}).predict({QUESTION!r}, top=3))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(xf.load_model(str(folder)).predict(QUESTION, top=3))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A work folder in which `run` has retrieved."""
    work = tmp_path_factory.mktemp("run")
    write_prepared(work, make_data())
    driver.run(LocalEngine(), load_config(None, settings_of(work)))
    return work


def settings_of(work: Path) -> dict[str, Any]:
    return {"dataset": "made", "work.path": str(work), "retrievers": dict(RETRIEVERS)}


def test_a_model_may_hold_trees(tmp_path) -> None:
    """It is opened with the settings that it was fitted with, and finds the labels that texts speak of."""
    folder = fitted(tmp_path, retrievers={"bm25": {}, "tree": {"leaf": 4, "trees": 2}})
    data, model = make_data(), xf.load_model(str(folder))
    best = [model.predict(text, top=1)[0] for text in data["texts"][:40]]
    own = [[f"L{number}" for number in labels] for labels in data["labels"][:40]]
    assert np.mean([label.label in carried for label, carried in zip(best, own, strict=True)]) > 0.8
    assert any("tree" in label.found_by for label in best)


def test_a_missing_extra_is_named(tmp_path) -> None:
    """A model with a transformer, on a machine without the packages that it needs."""
    (tmp_path / "bert").mkdir()
    dense = {"model": str(tiny_bert(tmp_path / "bert")), "max_length": 16, "batch_size": 8, "epochs": 1}
    folder = fitted(tmp_path, retrievers={"bm25": {}, "dense": dense})
    assert xf.load_model(str(folder)).predict(make_data()["texts"][0], top=1)[0].label
    code = f"""
import sys
sys.modules["sentence_transformers"] = None
import xmtc_fusion as xf
try:
    xf.load_model({str(folder)!r}).predict("w000 w001")
except xf.SetupError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "needs the package 'sentence_transformers'" in done.stdout, done.stderr
    assert "pip install" in done.stdout


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("t.csv", f'\ufefftext_id,more,text\n17,x,"{QUESTION}"\n-3,,"A chess program,\nwith a board"\n', [17, -3]),
        ("t.tsv", f"text\ttext_id\n{QUESTION}\t007\nA chess program with a board\t17\n", ["007", "17"]),
        ("t.csv.gz", f"text\n{QUESTION.replace(',', '')}\nA chess program with a board\n", [0, 1]),
    ],
)
def test_separated_values(folder, tmp_path, name: str, content: str, ids: list[Any]) -> None:
    """In the order of the lines, with ids as they are written."""
    (tmp_path / name).write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    asked = ["--model", str(folder), "--texts", f"{tmp_path}/{name}", "--top", "1"]
    assert main(["predict", *asked, "--output", f"{tmp_path}/out"]) == 0
    written = [json.loads(line) for line in (tmp_path / "out/predictions.jsonl").read_text().splitlines()]
    assert [row["text_id"] for row in written] == ids


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "t.csv is empty"),
        ("text\n", "t.csv is empty"),
        ("id;text\n1;a\n", "missing column 'text'; it has id;text"),
        ("text,text\na,b\n", "the column 'text' is there twice"),
        ("text_id,text\n1,a\nb,c\n", "line 3: text_id is a string, and the first line has a whole number"),
        ("text_id,text\na,a\n,c\n", "1 texts have no text_id"),
        ("text_id,text\n1,a\n1,c\n", "1 values of text_id occur more than once, first: 1"),
        ("text_id,text\n1,a,c\n", "line 2: 3 fields, and the first line names 2 columns"),
        ('text_id,text\n1,a\n2,"c\n', "line 3: unexpected end of data; is a quote missing?"),
        ("text\na\n\udcff\n", "line 3: not UTF-8; convert it"),
    ],
)
def test_separated_values_that_cannot_be_labelled(folder, tmp_path, capsys, content: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(content, errors="surrogateescape")
    asked = ["--model", str(folder), "--texts", f"{tmp_path}/t.csv", "--output", f"{tmp_path}/out"]
    assert main(["predict", *asked]) == 3
    assert message in capsys.readouterr().err and not (tmp_path / "out/predictions.jsonl").exists()


@pytest.fixture
def predicted(folder, tmp_path) -> Any:
    def run(texts: Any, kind: str, *, code: int = 0) -> Path:
        if isinstance(texts, pa.Table):
            pq.write_table(texts, tmp_path / "new.parquet")
        place = tmp_path / ("new.parquet" if isinstance(texts, pa.Table) else "new.jsonl")
        if not isinstance(texts, pa.Table):
            place.write_text("".join(f"{json.dumps(text)}\n" for text in texts))
        asked = ["--model", str(folder), "--texts", str(place), "--format", kind, "--top", "2"]
        assert main(["predict", *asked, "--output", f"{tmp_path}/{kind}"]) == code
        return tmp_path / kind

    return run


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
        (["--format", "jsonl"], 2, "predict.format is jsonl, but table:main.mail.labels is a catalog table"),
        (["--format", "trec"], 2, "predict.format is trec, but table:main.mail.labels is a catalog table"),
        (["--engine", "local"], 2, "grid.engine is local, but table:main.mail.labels is a catalog table"),
        (["--output", "table:main..labels"], 2, "'table:main..labels' should be table:catalog.schema.name"),
    ],
)
def test_a_table_that_cannot_be_written(folder, tmp_path, capsys, more: list[str], code: int, message: str) -> None:
    """Before Spark starts."""
    (tmp_path / "new.jsonl").write_text(f"{json.dumps({'text': QUESTION})}\n")
    asked = ["--model", str(folder), "--texts", f"{tmp_path}/new.jsonl", "--output", "table:main.mail.labels", *more]
    assert main(["predict", *asked]) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("job", ["evaluate", "fit", "report"])
def test_only_predictions_become_a_table(job: str, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([job, "--output", "table:main.mail.results"]) == 4
    assert "table:main.mail.results is a catalog table, which only predict can write" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_formats(model, predicted) -> None:
    texts = [{"text_id": "=b", "text": QUESTION}, {"text_id": "a", "text": ""}, {"text_id": "c", "text": QUESTION}]
    first, second = model.predict(QUESTION, top=2)
    rows = list(csv.DictReader((predicted(texts, "csv") / "predictions.csv").read_text().splitlines()))
    # What a spreadsheet would run is text.
    assert [(row["text_id"], row["rank"]) for row in rows] == [("'=b", "1"), ("'=b", "2"), ("c", "1"), ("c", "2")]
    assert (rows[0]["label"], rows[0]["name"]) == (first.label, first.name)
    assert float(rows[1]["probability"]) == second.probability
    lines = [line.split() for line in (predicted(texts, "trec") / "predictions.trec").read_text().splitlines()]
    assert lines[0] == ["=b", "Q0", first.label, "1", repr(first.score), "xmtc-fusion"]
    assert [line[0] for line in lines] == ["=b", "=b", "c", "c"]
    with_space = [{"text_id": "a b", "text": QUESTION}]
    predicted(with_space, "trec", code=4)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([{"text_id": 1, "text": "a"}, {"text_id": 2, "text": "b"}, {"text_id": 1, "text": "c"}], "twice"),
        (pa.table({"text_id": ["a", "b", "a"], "text": ["x", "y", "z"]}), "twice"),
        (pa.table({"text_id": ["a", None], "text": ["x", "y"]}), "new.parquet: 1 texts have no text_id"),
        (pa.table({"text_id": [1], "body": ["x"]}), "missing column 'text'; it has text_id, body"),
        (pa.table({"text_id": [1], "text": [2]}), "column 'text' holds int64, and texts are strings"),
        ([{"text_id": 2**64, "text": "a"}], "which has more than 64 bits"),
        ([{"text": "a"}, {"text_id": "b", "text": "c"}], "line 2: there is a text_id, and the first line has none"),
        (pa.table({"text_id": [1.0], "text": ["x"]}), "column 'text_id' holds double, and ids are whole numbers or"),
        (pa.table({"text_id": [b"\xff"], "text": ["x"]}), "column 'text_id' holds binary"),
        (pa.table({"text_id": [[1]], "text": ["x"]}), "column 'text_id' holds list"),
        (pa.table({"text_id": [1], "text": ["x"], "Text": ["y"]}), "the column 'Text' is there twice"),
        (pa.table({"text_id": [1], "text": ["x"]}).slice(1), "new.parquet is empty"),
    ],
)
def test_unusable_texts(predicted, capsys, texts: Any, message: str) -> None:
    predicted(texts, "jsonl", code=3)
    said = capsys.readouterr().err
    assert (message if message != "twice" else "1 values of text_id occur more than once, first: ") in said


def test_fit_and_predict_as_commands(run, tmp_path, capsys) -> None:
    settings = settings_of(run)
    (tmp_path / "made.yaml").write_text(json.dumps({"dataset": "made", "retrievers": settings["retrievers"]}))
    place = ["--config", f"{tmp_path}/made.yaml", "--work", str(run)]
    assert main(["fit", *place, "--output", f"{tmp_path}/model"]) == 0
    data = make_data()
    texts = [{"text_id": f"t{n}", "text": data["texts"][n]} for n in range(6)]
    (tmp_path / "new.jsonl").write_text("".join(f"{json.dumps(text)}\n" for text in texts))
    asked = ["--model", f"{tmp_path}/model", "--texts", f"{tmp_path}/new.jsonl", "--top", "3"]
    assert main(["predict", *asked, "--output", f"{tmp_path}/out"]) == 0
    written = [json.loads(line) for line in (tmp_path / "out/predictions.jsonl").read_text().splitlines()]
    assert [row["text_id"] for row in written] == [text["text_id"] for text in texts]
    model = xf.load_model(f"{tmp_path}/model")
    for row, text in zip(written, texts, strict=True):
        assert [label["label"] for label in row["labels"]] == [it.label for it in model.predict(text["text"], top=3)]
    assert main(["predict", *asked, "--format", "parquet", "--output", f"{tmp_path}/table"]) == 0
    table = pq.read_table(tmp_path / "table/predictions.parquet")
    assert table.column_names == ["text_id", "rank", "label", "name", "score", "probability"]
    assert len(table) == sum(len(row["labels"]) for row in written)
    # A model is not replaced unless it is asked for.
    assert main(["fit", *place, "--output", f"{tmp_path}/model"]) == 4
    assert main(["fit", *place, "--output", f"{tmp_path}/model", "--mode", "overwrite"]) == 0
    capsys.readouterr()


def test_fit_needs_no_run_before_it(tmp_path, capsys) -> None:
    """It prepares and retrieves what is not there yet; and the manifest says what made the model."""
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"text": t, "labels": some}) + "\n" for t, some in FEW))
    assert main(["init", f"{tmp_path}/t.jsonl", "--output", f"{tmp_path}/few.yaml"]) == 0
    command = ["fit", "--config", f"{tmp_path}/few.yaml", "--work", f"{tmp_path}/work", "--output", f"{tmp_path}/model"]
    assert main(command) == 0
    assert "tune has not run, so the fusion is the best cell" in capsys.readouterr().err
    manifest = read_manifest(f"{tmp_path}/model")
    assert manifest["packages"]["numpy"] == np.__version__
    assert manifest["settings"]["prepare"]["folds"] == 3 and "folder" not in manifest["settings"]["prepare"]
    assert set(manifest["settings"]) == {"prepare", "retrievers", "grid", "tune", "fit"}
    assert "fusions" in manifest["settings"]["grid"] and "engine" not in manifest["settings"]["grid"]
    assert str(tmp_path) not in json.dumps(manifest)
    # What is there already is not done again, and a model is refused before anything is.
    assert main(command) == 4
    assert "holds a model already" in capsys.readouterr().err
    assert main([*command, "--mode", "overwrite"]) == 0
    assert "prepare: up to date" in capsys.readouterr().err
    assert main(["fit", "--work", f"{tmp_path}/none", "--output", f"{tmp_path}/other"]) == 3
    assert "none/unnamed/prepared is not there: run 'xmtc-fusion prepare'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"text_id": 1, "text": "a"}\n{"text_id": "b", "text": "c"}\n', "line 2: text_id is a string"),
        ('{"text": "a"}\n{"body": "b"}\n', "line 2: no field 'text'; there are 'body'"),
        ('{"text": "a"}\nnot json\n', "line 2: not JSON"),
        ("", "is empty"),
    ],
)
def test_texts_that_cannot_be_labelled_are_named(folder, tmp_path, capsys, content: str, message: str) -> None:
    (tmp_path / "new.jsonl").write_text(content)
    asked = ["--model", str(folder), "--texts", f"{tmp_path}/new.jsonl"]
    assert main(["predict", *asked, "--output", f"{tmp_path}/out"]) == 3
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "predictions.jsonl").exists()


def test_a_label_known_by_name_only(tmp_path) -> None:
    """No text carries it; a retriever that reads names finds it."""
    said = {"fruit": "red apple tree", "dog": "dog barks loudly", "cat": "cat sleeps all day"}
    texts = [(f"{words} {number}", [label]) for number in range(16) for label, words in said.items()]
    settings = {"prepare.unused_labels": "keep"}
    names = {**{label: label for label in said}, "bird": "parrot"}
    model = xf.fit(*zip(*texts, strict=True), names=names, settings=settings)
    assert dict(zip(model.labels["label"].to_pylist(), model.labels["frequency"].to_pylist(), strict=True))["bird"] == 0
    first = model.predict("a parrot sings", top=1)[0]
    assert (first.label, first.name, first.found_by) == ("bird", "parrot", ("static",))


def test_objectives(records) -> None:
    texts, labels = zip(*((row["text"], row["labels"]) for row in records[:150]), strict=True)
    precise, complete = (
        xf.fit(texts, labels, objective=objective).validation["assignment"]
        for objective in ("precision=0.6", "recall=0.7")
    )
    assert precise["reached"] and precise["precision"] >= 0.6 > complete["precision"]
    assert complete["reached"] and complete["recall"] >= 0.7 > precise["recall"]
    assert precise["threshold"] > complete["threshold"] and precise["texts_without"] > complete["texts_without"]
