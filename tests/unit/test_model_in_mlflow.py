"""A model in MLflow: logged, registered, moved and applied. A real store, in a folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import xmtc_fusion as xf
from tests.models import fitted, mlflow_store, new_texts

mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return fitted(tmp_path_factory.mktemp("fitted"))


@pytest.fixture
def store(tmp_path, monkeypatch) -> Iterator[Path]:
    # Recent versions of MLflow ask to be told that a folder is meant.
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with mlflow_store(tmp_path / "store") as place:
        yield place


def test_a_logged_model_labels_texts(folder, store, tmp_path) -> None:
    model = xf.load_model(str(folder))
    with mlflow.start_run() as run:
        address = model.log_to_mlflow(registered="labels")
    loaded = mlflow.pyfunc.load_model(address)
    assert loaded.metadata.get_input_schema().input_names() == ["text"]
    assert loaded.metadata.get_output_schema().input_names() == ["labels", "names", "probabilities"]
    texts = new_texts()
    answer = loaded.predict(pd.DataFrame({"text": texts}, index=range(7, 7 + len(texts))))
    assert list(answer.index) == list(range(7, 7 + len(texts)))
    for text, labels, names, probabilities in zip(texts, *(answer[name] for name in answer), strict=True):
        expected = model.predict(text)
        assert labels == [label.label for label in expected]
        assert names == [label.name for label in expected]
        assert probabilities == [label.probability for label in expected]
    assert not any(Path(store).rglob("*.pkl"))
    with pytest.raises(Exception, match="text"):
        loaded.predict(pd.DataFrame({"body": ["x"]}))
    # The folder with MLflow's description of it can be moved.
    place = tmp_path / "elsewhere"
    shutil.copytree(mlflow.artifacts.download_artifacts(address), place)
    shutil.rmtree(store)
    again = mlflow.pyfunc.load_model(str(place)).predict(pd.DataFrame({"text": texts[:3]}))
    assert again["labels"].tolist() == answer["labels"].tolist()[:3]
    assert run.info.run_id


def test_a_registered_version_says_which_model_it_is(folder, store) -> None:
    from jobs.prediction.model import load
    from jobs.prediction.tracking import is_registered

    kept = load(str(folder))
    assert not is_registered(kept, "labels")
    xf.load_model(str(folder)).log_to_mlflow(registered="labels")
    assert is_registered(kept, "labels") and not is_registered(kept, "others")
    (version,) = mlflow.MlflowClient().search_model_versions("name = 'labels'")
    assert version.tags["fingerprint"] == kept.fingerprint


def test_a_missing_mlflow_is_named(folder, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(xf.SetupError, match="needs the package mlflow"):
        xf.load_model(str(folder)).log_to_mlflow()
