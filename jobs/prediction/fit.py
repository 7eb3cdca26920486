"""Job `fit`: what was chosen over folds, fitted once on all labelled texts, as a model that labels new ones.

The fusion is that of `tune` where it has run, otherwise the best cell on the validation texts of all folds. Its scores
become probabilities by a calibration on the same texts, whose lists come from models that had not seen them. Then every
retriever learns once more, from all texts, with the median of the epochs that the folds took.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import pyarrow as pa

from fusion import __version__
from fusion.errors import ConfigError, OutputError, check_all
from fusion.labels import ALL
from fusion.models.calibration import (
    Calibration,
    Candidates,
    calibration_error,
    group_calibrations,
    group_probabilities,
    held_out_probabilities,
    reliability,
    reliability_of_expected,
    scaled_scores,
)
from fusion.models.strategies import DEPLOYED
from fusion.tuning.assignment import Aim, Assignment, choose_assignment, parse_aim
from jobs.datasets import prepare
from jobs.datasets.prepared import PreparedDataset, dataset_engine, open_prepared, prepared_engine
from jobs.engines.choose import choose_engine
from jobs.engines.credentials import job
from jobs.engines.engine import Engine
from jobs.evaluation.model_file import ModelFile, parsed_model
from jobs.evaluation.schemas import MODEL_FILE
from jobs.inputs.labels import training_texts
from jobs.inputs.lists import ListRows
from jobs.inputs.sources import Sources
from jobs.inputs.stages import with_stages
from jobs.inputs.tables import InputTables, refuse_bad_rows
from jobs.prediction.model import LABEL_COLUMNS, LONGEST, Parts, check_place, keep
from jobs.retrievers import driver
from jobs.retrievers.stages import Work, fit_stage
from jobs.runtime.log import log
from jobs.runtime.machine import package_versions
from jobs.settings.config import Config, with_settings
from jobs.storage.folders import check_folder, read_object, read_text
from jobs.storage.stages import stage_folder
from jobs.storage.workspace import LABELS, TEST, TRAIN, VALIDATION, Workspace
from jobs.tuning.tuner import Tuner
from jobs.tuning.validation import load_validation
from udfs.fuse import FusionPlan
from udfs.prediction.candidates import CANDIDATES_SCHEMA, candidate_scores
from udfs.prediction.model import Assigning
from udfs.prediction.texts import TEXT_ID
from udfs.retrieval.folds import EVERY_TEXT, FoldSource, role_texts
from udfs.retrieval.retriever import Retriever, fold_folder
from udfs.stores.cache import readable_folder
from udfs.stores.objects import put
from udfs.tuning import TrainTexts

FITTED = "fit"
"""The folder of what retrievers learn from all texts."""


@dataclass(frozen=True)
class Validation:
    """The candidates of validation texts, and how many texts and relevant labels these have in all."""

    candidates: Candidates
    texts: int
    relevant_labels: int


def check(config: Config) -> str:
    """Refuse what cannot become a model, and a place that cannot hold one; the place."""
    if config.output.path is None:
        raise OutputError("no place for the model: give --output FOLDER, or set output.path")
    check_folder(config.output)
    check_all(
        partial(check_place, config.output.path, config.output.mode == "overwrite"),
        partial(_check_retrievers, config),
    )
    return config.output.path


@job
def run_stages(config: Config) -> Mapping[str, Any]:
    """The stages before the model, where they are not there yet, and the model."""
    check(config)
    # Tables that were prepared elsewhere have no files to be prepared from.
    if config.prepare.format is not None:
        prepare.run(dataset_engine(config), config)
    driver.run(prepared_engine(config), config)
    return run(config)


@job
def run(config: Config, spark: Any = None) -> Mapping[str, Any]:
    """Fit, and write the model; what its manifest says of it."""
    output = check(config)
    staged = with_stages(config)
    sources = Sources.of(staged.inputs)
    sources.require(judged=True)
    engine = choose_engine(config, sources.addresses(), spark)
    tables = InputTables(engine, sources)
    place = Workspace.of(config)
    fusion = chosen_fusion(tables, staged, place)
    model = parsed_model(fusion, MODEL_FILE)
    train_texts = training_texts(tables, config.evaluate.relevant_from) if model.reads_training else None
    lists = load_validation(tables, config.evaluate, config.tune).lists
    validation = validation_candidates(lists, model, train_texts)
    aim = parse_aim(config.fit.objective)
    curves, assignment, figures = calibrated(validation, aim)
    prepared = open_prepared(engine, place.prepared)
    fitted = fit_retrievers(engine, config, place, prepared)
    size = keep(
        output,
        Parts(
            retrievers=tuple(fitted),
            fusion=fusion,
            labels=_labels(engine, prepared),
            texts=pa.table({TEXT_ID: role_texts(FoldSource(EVERY_TEXT, prepared.folder), TRAIN)}),
            calibrations=curves,
            assigning=Assigning(assignment.top, assignment.threshold),
            about={
                "version": __version__,
                "packages": package_versions(),
                "settings": _settings(config),
                "dataset": config.dataset,
                "training": {"texts": prepared.texts, "labels": prepared.labels, "prepared": prepared.fingerprint},
                "objective": str(aim),
                "validation": figures,
            },
        ),
        {retriever.name: folder for retriever, folder in fitted.items()},
        config.output.mode == "overwrite",
    )
    put(place.fitted, json.dumps(figures).encode())
    log(f"fit: the model is in {output} ({size / 1e6:,.1f} MB); {_words(figures)}")
    return figures


def chosen_fusion(tables: InputTables[Any], config: Config, place: Workspace) -> str:
    """The text of the model file of `tune` or, where it has not run, of the best cell on validation texts."""
    tuned = read_text(f"{stage_folder(place.tuned)}/{MODEL_FILE}")
    if tuned is not None:
        log("fit: the fusion is that of tune")
        return tuned
    cells = with_settings(config, {"tune.strategies": ["tuned+cell"], "tune.curve": []})
    log("fit: tune has not run, so the fusion is the best cell of the grid on validation texts")
    return Tuner.of(tables, cells).tune().model


def validation_candidates(lists: ListRows[Any], model: ModelFile, train_texts: TrainTexts | None) -> Validation:
    """The candidates of all validation texts under the fusion of the model."""
    layout = lists.layout.of_read
    plan = FusionPlan(
        layout=layout,
        cells=(),
        views=(ALL,),
        scope=model.scope,
        top=LONGEST,
        text_type=lists.types.text,
        label_type=lists.types.label,
        policies=model.policies,
        strategies={DEPLOYED: model.strategy},
    )
    rows = lists.through(plan, candidate_scores(plan, train_texts), CANDIDATES_SCHEMA, adds_up=False)
    found = lists.engine.collect(rows)
    refuse_bad_rows(found["problems"].to_pylist())
    totals = found.filter(pa.compute.is_valid(found["texts"]))
    rows = found.filter(pa.compute.is_valid(found["score"]))
    columns = {name: rows[name].to_numpy() for name in ("text", "label_group", "score", "relevant")}
    candidates = Candidates(
        text=columns["text"],
        group=columns["label_group"],
        names=layout.group_names or (ALL,),
        score=columns["score"],
        relevant=columns["relevant"].astype(np.bool_),
    )
    return Validation(
        candidates,
        texts=int(sum(totals["texts"].to_pylist())),
        relevant_labels=int(sum(totals["relevant_labels"].to_pylist())),
    )


def calibrated(validation: Validation, aim: Aim) -> tuple[dict[str, Calibration], Assignment, dict[str, Any]]:
    """The calibration of each label group, how many labels to assign, and how good both are on validation texts: each
    half of these is judged by the calibrations of the other half."""
    candidates = validation.candidates
    text, group, names, score, relevant = candidates
    probability = held_out_probabilities(candidates)
    judged = np.isfinite(probability)
    even = reliability(probability[judged], relevant[judged])
    expected = reliability_of_expected(probability[judged], relevant[judged])
    curves = group_calibrations(candidates)
    fitted = group_probabilities(score, group, names, curves)
    assignment = choose_assignment(fitted, relevant, text, validation.relevant_labels, aim)
    labelled = len(np.unique(text[fitted >= assignment.threshold]))
    figures = {
        "texts": validation.texts,
        "calibration_error": calibration_error(even),
        "bins": len(even),
        "uncalibrated_error": calibration_error(reliability(scaled_scores(candidates), relevant)),
        "assignment": {
            **assignment._asdict(),
            "labels_per_text": assignment.assigned / max(validation.texts, 1),
            "texts_without": validation.texts - labelled,
        },
        "expected_error": calibration_error(expected),
        "reliability": [line._asdict() for line in expected],
    }
    return curves, assignment, figures


def _check_retrievers(config: Config) -> None:
    for entry in config.retrievers.entries():
        if entry.learn is not None:
            raise ConfigError(f"the retriever {entry.name} is a function of yours, which a model cannot hold yet")
    check_all(partial(driver.check_fused, config), partial(driver.check, config))


def fit_retrievers(
    engine: Engine[Any], config: Config, place: Workspace, prepared: PreparedDataset
) -> dict[Retriever, Path]:
    """Every retriever with the folder of what it has learned from all texts."""
    sizes = {TRAIN: {EVERY_TEXT: prepared.texts}, VALIDATION: {EVERY_TEXT: 0}, TEST: {EVERY_TEXT: 0}}
    work = Work(engine, replace(prepared, role_sizes=sizes), replace(place, models=FITTED))
    fitted = {}
    for entry in config.retrievers.entries():
        settings = config.retrievers.settings(entry.name, entry.settings)
        epochs = _epochs(place, entry.name)
        if epochs is not None:
            settings = settings.model_copy(update={"epochs": epochs})
        todo = driver.BUILT_IN[entry.name].job(work, entry.name, settings)
        models = fit_stage(work, todo)
        fitted[todo.retriever] = readable_folder(fold_folder(models.folder, EVERY_TEXT), models.fingerprint)
    return fitted


def _epochs(place: Workspace, name: str) -> int | None:
    """The epochs that training took in the folds, by the median; None where nothing is trained in epochs."""
    reports = read_object(f"{stage_folder(place.retriever_stage(name, 'model'))}/report.json")
    best = [report["best"] for report in reports.values() if isinstance(report, dict) and "best" in report]
    return max(1, median_low(best)) if best else None


def _settings(config: Config) -> dict[str, Any]:
    """What decides the model. Where its texts were does not, nor does the engine."""
    about = {"prepare": {"folder"}, "grid": {"engine", "local_limit"}}
    chosen: dict[str, Any] = dict.fromkeys(("prepare", "retrievers", "grid", "tune", "fit"), True)
    return config.model_dump(mode="json", include=chosen, exclude=about)


def _labels(engine: Engine[Any], prepared: PreparedDataset) -> pa.Table:
    return engine.collect(engine.read(prepared.table(LABELS), LABEL_COLUMNS))


def _words(figures: Mapping[str, Any]) -> str:
    made = figures["assignment"]
    return (
        f"on {figures['texts']:,} validation texts, labels with a probability of at least {made['threshold']:.2f} give "
        f"F1 {100 * made['f1']:.1f} (precision {100 * made['precision']:.1f}, recall {100 * made['recall']:.1f}); "
        f"calibration error {100 * figures['calibration_error']:.1f} points"
    )
