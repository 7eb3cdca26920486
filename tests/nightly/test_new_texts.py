"""New texts that a night labels once its gate is green, and an alarm where what they are assigned has moved."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import xmtc_fusion as xf
from jobs.nights.night import Night
from tests.models import fitted, new_texts, write_lines
from tests.nights import Site, Texts, good_texts


@pytest.fixture(scope="module")
def texts() -> Texts:
    return good_texts(120)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return fitted(tmp_path_factory.mktemp("fitted"))


@pytest.fixture
def site(tmp_path: Path, texts: Texts) -> Site:
    write_lines(tmp_path / "new.jsonl", [f"t{n}" for n in range(len(new_texts()))])
    return Site(tmp_path, texts)


def night(site: Site, model: Path, run_id: str, **settings: Any) -> Night:
    predict = {"nightly__predict__model": str(model), "nightly__predict__texts": f"{site.folder}/new.jsonl"}
    return site.run(run_id, **{**predict, **settings})


def test_a_green_night_labels_new_texts(site: Site, model: Path) -> None:
    first = night(site, model, "first")
    assert first.exit_code == 0 and f"{len(new_texts())} new texts labelled: " in str(first)
    rows = site.history().read("predictions", ["first"])
    assert rows is not None
    assert set(rows["dataset"].to_pylist()) == {"sample"}
    kept = xf.load_model(str(model))
    assert set(rows["model"].to_pylist()) == {json.loads((model / "model.json").read_text())["folder"]}
    expected = kept.predict(new_texts()).to_pylist()
    found = [(row["text_id"], row["label"], row["probability"]) for row in rows.to_pylist()]
    assert found == [(f"t{row['text_id']}", row["label"], row["probability"]) for row in expected]
    # The same texts again move nothing.
    second = night(site, model, "second")
    assert second.exit_code == 0
    assert len(site.history().read("predictions") or ()) == 2 * len(rows)
    watched = {str(one.quantity): one for one in second["sample"].movements}
    assert watched["mean number of labels of new texts"].value == len(rows) / len(new_texts())
    assert watched["share of new texts without a label"].change == 0
    assert {"share of head labels among those of new texts", "share of tail labels among those of new texts"} <= {
        *watched
    }
    # A night without new texts loses nothing by it.
    assert site.run("third").exit_code == 0


def test_other_assignments_are_an_alarm(site: Site, model: Path) -> None:
    night(site, model, "first")
    (site.folder / "new.jsonl").write_text("".join(f'{{"text_id": {n}, "text": "zzzz"}}\n' for n in range(20)))
    second = night(site, model, "second")
    assert (second.exit_code, second["sample"].verdict) == (12, "data drift")
    assert "mean number of labels of new texts moved by 1.000, more than 0.2" in str(second)
    assert "share of new texts without a label moved by " in str(second)
    # It is no baseline, and may be allowed.
    assert night(site, model, "third", nightly__drift__assigned=None)["sample"].against == "first"


def test_a_red_night_labels_nothing(site: Site, model: Path) -> None:
    site.run("first")
    site.change("judgements", lambda rows: rows[:60])
    red = night(site, model, "second")
    assert red.exit_code == 14 and red["sample"].labelled is None
    assert site.history().read("predictions") is None


def test_texts_that_cannot_be_labelled_change_no_verdict(site: Site, model: Path) -> None:
    (site.folder / "new.jsonl").write_text('{"text_id": 1, "text": "a"}\n{"text_id": 1, "text": "b"}\n')
    first = night(site, model, "first")
    assert first.exit_code == 0
    (problem,) = first.problems
    assert problem.startswith("sample: new texts are not labelled: ") and "more than once, first: 1" in problem


def test_a_green_night_registers_the_model(site: Site, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = (site.folder / "mlflow").as_uri()
    chosen = {"nightly__mlflow": store, "nightly__predict__registered": "labels"}
    client = mlflow.MlflowClient(store)
    try:
        site.change("judgements", lambda rows: rows[:60])
        assert night(site, model, "zeroth", nightly__checks__bounds={"texts": [100, None]}, **chosen).exit_code == 14
        assert not client.search_model_versions("name = 'labels'")
        for run_id in ("first", "second"):
            assert night(site, model, run_id, **chosen).problems == ()
        # The same model is no second version.
        (version,) = client.search_model_versions("name = 'labels'")
        loaded = mlflow.pyfunc.load_model(f"models:/labels/{version.version}")
        assert len(loaded.predict(pd.DataFrame({"text": new_texts()[:2]}))) == 2
    finally:
        mlflow.set_tracking_uri("")
