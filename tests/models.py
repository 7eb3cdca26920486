"""A model fitted on a small prepared dataset, and texts for it to label."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jobs.engines.local import LocalEngine
from jobs.prediction import fit
from jobs.retrievers import driver
from jobs.settings.config import Config, load_config
from tests.retrieval_data import make_data, write_prepared

RETRIEVERS: Mapping[str, Any] = {
    "bm25": {},
    "static": {"train_batch": 32, "epochs": 3, "learning_rate": 0.02, "model": "words"},
}
EMPTY, STRANGE = 3, 5
"""Texts without a word, and without one that the model knows."""


def made_config(work: Path, **settings: Any) -> Config:
    return load_config(None, {"dataset": "made", "work.path": str(work), "retrievers": dict(RETRIEVERS), **settings})


def fitted(place: Path, **settings: Any) -> Path:
    """The folder of a model; the work folder is next to it."""
    write_prepared(place / "work", make_data())
    config = made_config(place / "work", **{"output.path": str(place / "model"), **settings})
    driver.run(LocalEngine(), config)
    fit.run(config)
    return place / "model"


def new_texts() -> list[str]:
    """Texts, among them one that says everything many times: more than a megabyte."""
    texts: list[str] = list(make_data()["texts"])
    texts[EMPTY], texts[STRANGE] = "", "zzzz qqqq"
    return [*texts, " ".join(texts * 300)]


def write_lines(path: Path, ids: Any = None) -> str:
    """The texts as JSON lines; with ids, in the order of these."""
    records = [
        {"text": text} if ids is None else {"text_id": ids[n], "text": text} for n, text in enumerate(new_texts())
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return str(path)


@contextmanager
def mlflow_store(folder: Path) -> Iterator[Path]:
    """MLflow with its store in a folder. The experiment is one of this store: MLflow remembers the last one."""
    import mlflow

    mlflow.set_tracking_uri(folder.as_uri())
    mlflow.set_experiment("models")
    try:
        yield folder
    finally:
        mlflow.set_tracking_uri("")
