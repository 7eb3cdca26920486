"""A model with what was learned from the training part of a fold labels the fold's test texts as `run` does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import xmtc_fusion as xf
from fusion.tuning.assignment import parse_aim
from jobs.datasets.prepared import open_prepared
from jobs.engines.local import LocalEngine
from jobs.evaluation.model_file import parsed_model
from jobs.inputs.labels import training_texts
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_stages
from jobs.inputs.tables import InputTables
from jobs.prediction.fit import calibrated, validation_candidates
from jobs.prediction.model import LABEL_COLUMNS, KeptModel, Parts, keep, load
from jobs.retrievers import driver
from jobs.retrievers.stages import Work
from jobs.settings.config import Config, with_settings
from jobs.storage.stages import stage_folder
from jobs.storage.workspace import Workspace
from jobs.tuning.tuner import Tuner
from jobs.tuning.validation import load_validation
from tests.models import made_config
from tests.retrieval_data import TEXTS, make_data, read_lists, write_prepared
from udfs.prediction.model import Assigning
from udfs.prediction.texts import TEXT_ID

FOLD = 0
DATA = make_data()
OF_ROLE = {role: [n for n in range(TEXTS) if DATA["roles"][FOLD][n] == role] for role in ("train", "test")}
FUSIONS = {
    "zmuv+combmnz": {"tune.strategies": ["tuned+cell"], "grid.cells": ["zmuv+combmnz"]},
    "learned+logistic": {"tune.strategies": ["learned+logistic"], "tune.deploy": "learned+logistic"},
    "learned+bands": {"tune.strategies": ["learned+bands"], "tune.deploy": "learned+bands"},
}


@pytest.fixture(scope="module")
def config(tmp_path_factory) -> Config:
    """Of a work folder in which `run` has retrieved."""
    return retrieved(tmp_path_factory.mktemp("run"), DATA)


def retrieved(work: Path, data: dict[str, Any]) -> Config:
    write_prepared(work, data)
    config = made_config(work)
    driver.run(LocalEngine(), config)
    return config


def fold_model(config: Config, fusion: str, place: str, data: dict[str, Any] = DATA) -> KeptModel:
    """A model of the fold: its retrievers, and a fusion that counts the fold's training texts."""
    space, engine = Workspace.of(config), LocalEngine()
    prepared = open_prepared(engine, space.prepared)
    folders = {}
    for entry in config.retrievers.entries():
        settings = config.retrievers.settings(entry.name, entry.settings)
        todo = driver.BUILT_IN[entry.name].job(Work(engine, prepared, space), entry.name, settings)
        models = stage_folder(space.retriever_stage(entry.name, "model")).removeprefix("file://")
        folders[todo.retriever] = Path(f"{models}/fold={FOLD}")
    labels = pq.read_table(prepared.table("labels.parquet").removeprefix("file://")).select(LABEL_COLUMNS)
    carried = [label for text in OF_ROLE["train"] for label in data["labels"][text]]
    counts = np.bincount(carried, minlength=len(labels))
    labels = labels.set_column(labels.schema.get_field_index("frequency"), "frequency", [counts])
    texts = pq.read_table(prepared.table("samples.parquet").removeprefix("file://")).select([TEXT_ID])
    about = {"training": {"texts": len(OF_ROLE["train"])}}
    parts = Parts(tuple(folders), fusion, labels, texts.take(OF_ROLE["train"]), {}, Assigning(64), about)
    keep(place, parts, {retriever.name: folder for retriever, folder in folders.items()}, overwrite=False)
    return load(place)


def tables_of(config: Config) -> InputTables[Any]:
    return InputTables(LocalEngine(), Sources.of(with_stages(config).inputs))


def tuned(config: Config, fusion: str) -> str:
    """The model file of a fusion, which was chosen or learned on validation texts."""
    settings = {"tune.curve": [], **FUSIONS[fusion]}
    return Tuner.of(tables_of(config), with_settings(with_stages(config), settings)).tune().model


@pytest.mark.parametrize("fusion", FUSIONS)
def test_lists_and_fused_lists_are_those_of_a_run(config, tmp_path, fusion: str) -> None:
    chosen = tuned(config, fusion)
    kept = fold_model(config, chosen, str(tmp_path / "model"))
    tests, groups = OF_ROLE["test"], kept.retrievers[0].groups
    lists = kept.model.lists([DATA["texts"][text] for text in tests])
    for retriever, ranked in zip(kept.retrievers, lists, strict=True):
        found = {}
        for number in np.flatnonzero(np.diff(ranked.offset)):
            some = slice(ranked.offset[number], ranked.offset[number + 1])
            key = tests[number // len(groups)], groups[number % len(groups)]
            found[key] = ranked.item[some].tobytes(), ranked.score[some].tobytes()
        rows = read_lists(Workspace.of(config).candidates(retriever.name))
        assert found == {(row[2], row[3]): written(row[4], row[5]) for row in rows if row[0] == FOLD}

    runs = {}
    for name in ("bm25", "static"):
        table = pq.read_table(f"{Workspace.of(config).candidate_lists(name)}/role=test")
        runs[name] = table.filter(np.array(table["fold"]) == FOLD)
    (tmp_path / "fusion.json").write_text(chosen)
    training = {text: DATA["labels"][text] for text in OF_ROLE["train"]}
    expected = xf.fuse(runs, model=str(tmp_path / "fusion.json"), training=training)
    if not fusion.startswith("learned"):
        assert expected.to_pylist() == xf.fuse(runs, fusion).to_pylist()
    fused = {tests[row["text_id"]]: row for row in kept.model.fuser(lists, len(tests)).to_pylist()}
    rows = {row["text_id"]: written(row["label_ids"], row["scores"]) for row in expected.to_pylist()}
    assert {text: written(row["label_ids"], row["scores"]) for text, row in fused.items()} == rows
    assert len(rows) == len(tests)


def written(labels: list[int], scores: list[float]) -> tuple[bytes, bytes]:
    return np.array(labels, np.int32).tobytes(), np.array(scores, np.float32).tobytes()


@pytest.mark.parametrize("role", ["test", "train", "validation"])
def test_labels_of_texts_that_are_not_given_change_nothing(tmp_path, role: str) -> None:
    """Those of test texts, of which the model is to know nothing; those of the others do change it."""
    of_fold = {**DATA, "roles": DATA["roles"][FOLD : FOLD + 1]}
    texts = [text for text in range(TEXTS) if of_fold["roles"][0][text] == role]
    others = dict(zip(texts, [*texts[1:], texts[0]], strict=True))
    labels = [DATA["labels"][others.get(text, text)] for text in range(TEXTS)]
    models = [
        everything(tmp_path / name, data) for name, data in (("a", of_fold), ("b", {**of_fold, "labels": labels}))
    ]
    assert (models[0] == models[1]) == (role == "test")


def everything(place: Path, data: dict[str, Any]) -> tuple[Any, ...]:
    """All that a model is made of: files, calibration, threshold, figures."""
    config = retrieved(place / "work", data)
    fusion = tuned(config, "learned+logistic")
    kept = fold_model(config, fusion, str(place / "model"), data)
    train_texts = training_texts(tables_of(config), None)
    lists = load_validation(tables_of(config), config.evaluate, config.tune).lists
    candidates = validation_candidates(lists, parsed_model(fusion, "fusion.json"), train_texts)
    return kept.fingerprint, calibrated(candidates, parse_aim("f1"))
