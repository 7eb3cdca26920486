"""From files to a tuned fusion on a published split: nothing depends on the labels of test texts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from fusion.tuning.assignment import parse_aim
from jobs.engines.local import LocalEngine
from jobs.evaluation import pipeline
from jobs.evaluation.model_file import read_model
from jobs.evaluation.schemas import MODEL_FILE
from jobs.inputs.labels import training_texts
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_stages
from jobs.inputs.tables import InputTables
from jobs.prediction.fit import calibrated, validation_candidates
from jobs.settings.config import Config, load_config
from jobs.storage.stages import stage_folder
from jobs.storage.versions import STAGE_FILE
from jobs.storage.workspace import Workspace
from jobs.tuning import tune
from jobs.tuning.validation import load_validation
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


def permuted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same texts, those of the test part with each other's labels."""
    tested = [n for n, row in enumerate(rows) if row["split"] == "test"]
    others = np.random.default_rng(3).permutation(tested)
    moved = {n: {**rows[n], "labels": rows[other]["labels"]} for n, other in zip(tested, others, strict=True)}
    return [moved.get(n, row) for n, row in enumerate(rows)]


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
        "retrievers": {"bm25": {}, "static": {"train_batch": 32, "epochs": 2}},
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
    tables = InputTables(LocalEngine(), Sources.of(config.inputs))
    validation = load_validation(tables, config.evaluate, config.tune, False)
    model = read_model(f"{tuned}/{MODEL_FILE}")
    candidates = validation_candidates(validation, model, training_texts(tables, config.evaluate.relevant_from))
    curves, assignment, figures = calibrated(candidates, parse_aim("f1"))
    found["calibration"] = {group: curve.to_json() for group, curve in curves.items()}, assignment, figures
    return found


def test_labels_of_test_texts_change_nothing_that_is_learned(tmp_path: Path) -> None:
    rows = records()
    made_of = {"first": rows, "permuted": permuted(rows)}
    configs = [made(tmp_path / name, of) for name, of in made_of.items()]
    figures = [pq.read_table(finished(Workspace.of(config).tuned) / "metrics.parquet") for config in configs]
    assert not figures[0].equals(figures[1])
    first, second = map(learned, configs)
    assert len(first) > 10 and first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
