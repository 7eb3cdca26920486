"""From files to a tuned fusion on a published split: nothing depends on the labels of test texts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from fusion.tuning.assignment import parse_aim
from jobs.engines.local import LocalEngine
from jobs.evaluation import pipeline
from jobs.evaluation.model_file import read_model
from jobs.evaluation.schemas import MODEL_FILE
from jobs.inputs.labels import training_texts
from jobs.inputs.lists import load_lists
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_stages
from jobs.inputs.tables import InputTables
from jobs.prediction import fit
from jobs.prediction.fit import calibrated, validation_candidates
from jobs.settings.config import Config, load_config
from jobs.storage.stages import stage_folder
from jobs.storage.versions import STAGE_FILE
from jobs.storage.workspace import LABELS, VALIDATION, Workspace
from jobs.tuning import tune
from udfs.stores.addresses import absolute

DEMO = Path(__file__).parents[2] / "data" / "debtags" / "texts.jsonl.gz"
TEXTS = 300
OF_TEST = {"test_value", "best_test_choice", "best_test_value"}
"""Columns of the choices that say how these did on test texts."""


def records() -> list[dict[str, Any]]:
    with gzip.open(DEMO, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for _, line in zip(range(TEXTS), stream, strict=False)]
    roles = ("train", "train", "train", "validation", "test")
    return [{"text": row["text"], "labels": row["labels"], "split": roles[n % 5]} for n, row in enumerate(rows)]


def permuted(rows: list[dict[str, Any]], each: int) -> list[dict[str, Any]]:
    """The same texts, those of the test part with the labels of some others of it. With the labels of one each, labels
    stay as frequent as they were."""
    tested = [n for n, row in enumerate(rows) if row["split"] == "test"]
    others = np.random.default_rng(3).permutation(tested).tolist()
    moved = {
        n: sorted({label for other in (others[place:] + others)[:each] for label in rows[other]["labels"]})
        for place, n in enumerate(tested)
    }
    return [{**row, "labels": moved.get(n, row["labels"])} for n, row in enumerate(rows)]


def made(folder: Path, rows: list[dict[str, Any]]) -> Config:
    """All stages and `tune`."""
    folder.mkdir()
    (folder / "texts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {
        "dataset": "demo",
        "work.path": str(folder / "work"),
        "prepare.format": "jsonl",
        "prepare.folder": str(folder),
        "prepare.parts": [{"name": "all", "texts": "texts.jsonl"}],
        "prepare.columns": {"role": "split"},
        "prepare.split": "published",
        "prepare.allow_leaks": True,
        "prepare.label_groups": {"frequent": "20..", "few": "1..19", "zero": 0},
        "retrievers": {"bm25": {}, "static": {"train_batch": 32, "epochs": 2}, "tree": {}},
        "tune.strategies": ["tuned+cell", "tuned+weights", "learned+logistic", "learned+bands", "learned+isotonic"],
        "evaluate.randomizations": 0,
        "evaluate.label_groups": "all",
    }
    config = load_config(None, settings)
    config = with_stages(pipeline.with_candidates(LocalEngine(), config))
    output = config.output.model_copy(update={"path": Workspace.of(config).tuned, "mode": "overwrite"})
    tune.run(None, config.model_copy(update={"output": output}))
    return config


def finished(folder: str) -> Path:
    """Where the finished version of a folder is."""
    return Path(absolute(stage_folder(folder)))


def files(folder: str) -> dict[str, bytes]:
    """The files of a stage, without the one that says when it was made."""
    place = finished(folder)
    every = (file for file in sorted(place.rglob("*")) if file.is_file() and file.name != STAGE_FILE)
    return {f"{file.relative_to(place)}": file.read_bytes() for file in every}


def learned(config: Config) -> dict[str, Any]:
    """Everything that is learned or chosen, and every list that comes from it."""
    place = Workspace.of(config)
    found: dict[str, Any] = {}
    for name in config.retrievers:
        for stage in (place.retriever_stage(name, "model"), place.candidates(name)):
            found |= {f"{Path(stage).name} of {name}: {file}": content for file, content in files(stage).items()}
    tuned = finished(place.tuned)
    choices = pq.read_table(tuned / "choices.parquet")
    found["choices"] = choices.drop_columns(sorted(OF_TEST)).to_pylist()
    found[MODEL_FILE] = (tuned / MODEL_FILE).read_bytes()
    labels = pq.read_table(f"{finished(place.prepared)}/{LABELS}")
    found["label groups"] = labels.drop_columns("frequency").to_pylist()
    tables = InputTables(LocalEngine(), Sources.of(config.inputs))
    relevant_from = config.evaluate.relevant_from
    lists = load_lists(tables, True, relevant_from, role=VALIDATION)
    model = read_model(f"{tuned}/{MODEL_FILE}")
    candidates = validation_candidates(lists, model, training_texts(tables, relevant_from))
    curves, assignment, figures = calibrated(candidates, parse_aim("f1"))
    found["calibration"] = {group: curve.to_json() for group, curve in curves.items()}, assignment, figures
    return found


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Config:
    return made(tmp_path_factory.mktemp("published") / "first", records())


@pytest.mark.parametrize("each", [1, 2])
def test_labels_of_test_texts_change_nothing_that_is_learned(published: Config, tmp_path: Path, each: int) -> None:
    other = made(tmp_path / "other", permuted(records(), each))
    metrics = [pq.read_table(finished(Workspace.of(config).tuned) / "metrics.parquet") for config in (published, other)]
    assert not metrics[0].equals(metrics[1])
    first, second = learned(published), learned(other)
    assert len(first) > 10 and first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


def test_a_model_is_fitted_on_a_published_split(published: Config, tmp_path: Path) -> None:
    """Its one fold decides; then the model learns from all texts, test texts included."""
    output = published.output.model_copy(update={"path": str(tmp_path / "model")})
    figures = fit.run(published.model_copy(update={"output": output}))
    assert figures["texts"] == TEXTS // 5
    (tested,) = (row for row in records()[:5] if row["split"] == "test")
    labels = xf.load_model(str(tmp_path / "model")).predict(tested["text"], top=2)
    assert {label.label for label in labels} <= set(tested["labels"])
